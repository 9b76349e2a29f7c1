// SPDX-License-Identifier: Apache-2.0
// Ways to call attention wrongly, each with the words its error must hold.
#pragma once

#include <deque>
#include <vector>

#include "support/attention_cases.h"

namespace fovea::test {

// What a mistake may change: the parameters, its KV structs, and tensors it brings along.
struct Wrong {
  AttentionProblem& problem;
  fovea_attention_params& p;
  fovea_kv& kv;
  std::deque<TensorBox> extra;

  const fovea_tensor& index(const std::vector<int64_t>& values, std::vector<int64_t> shape = {}) {
    return extra.emplace_back(indices(values, FOVEA_I32, std::move(shape))).view();
  }
  const fovea_tensor& number(const std::vector<double>& values, int32_t dtype = FOVEA_F32,
                             std::vector<int64_t> shape = {}) {
    return extra.emplace_back(floats(values, dtype, std::move(shape))).view();
  }
};

enum class Base { any, ragged, padded, csr, contiguous, ragged_kv, fp8, bits, mla };

AttentionCase base_case(Base base);

struct Mistake {
  const char* name;
  Base base;  // any: made on ragged queries over pages, and at random in the fuzz test
  void (*make)(Wrong&);
  std::vector<const char*> words;  // that the message holds
  fovea_status code = FOVEA_INVALID_VALUE;
  // Only the memory of an index tensor shows it: the CPU looks before it writes, a device in checked calls alone.
  bool by_value = false;
};

const std::vector<Mistake>& mistakes();

}  // namespace fovea::test
