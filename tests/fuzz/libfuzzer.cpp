// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls, for the one target of this program.
#include "fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fovea::fuzz::targets().front().run({data, size});
  return 0;
}

// libFuzzer's changes, the target's, or one after the other.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const auto mutate = fovea::fuzz::targets().front().mutate;
  if (mutate == nullptr) return LLVMFuzzerMutate(data, size, max_size);
  if (seed % 3 != 0) size = LLVMFuzzerMutate(data, size, max_size);
  return seed % 3 == 1 ? size : mutate(data, size, max_size, seed / 3);
}
