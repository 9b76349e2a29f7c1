// SPDX-License-Identifier: Apache-2.0
// A fuzz target: one function of bytes. It is a libFuzzer program of its own (fuzz_<name>, preset `fuzz`), and every
// build replays its kept inputs in test_fuzz.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fovea::fuzz {

using Bytes = std::span<const uint8_t>;

struct Target {
  const char* name;
  void (*run)(Bytes data);
  // Changes data[0, size), which has room for max_size bytes, and answers the new size; null: libFuzzer's own changes.
  size_t (*mutate)(uint8_t* data, size_t size, size_t max_size, uint64_t seed) = nullptr;
};

// Those that are linked into this program.
std::vector<Target>& targets();

struct Register {
  explicit Register(const Target& target) { targets().push_back(target); }
};

// What must hold for every input: prints `what` with the details and aborts, so that libFuzzer keeps the input.
void demand(bool holds, const char* what, const char* details = "");

}  // namespace fovea::fuzz
