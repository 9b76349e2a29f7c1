// SPDX-License-Identifier: Apache-2.0
// The calls that a model makes in a deployment, as cases that can be planned.
#pragma once

#include <string>
#include <vector>

#include "bench/shape.h"
#include "deploy/model_attention.h"

namespace fovea::app {

struct Deployment {
  int32_t dtype = FOVEA_BF16;         // of activations
  std::vector<int32_t> codecs;        // of the cache
  int32_t scale_kind = bench::kAuto;  // of codecs that need one
  int32_t layout = bench::kNhd;
  int64_t page_size = 16;     // tokens; 0: a contiguous cache
  int64_t max_tokens = 8192;  // new ones in one call
  int64_t max_batch = 256;    // sequences
  int64_t max_len = 32768;    // tokens of a sequence
};

struct DeployedCase {
  std::string what;  // "attention, decode, sliding layers, kv fp8"
  int32_t op = 0;
  bench::Shape shape;
};

// Every phase at the sizes where planners change their mind, so that what they choose between is compiled.
std::vector<DeployedCase> cases_of(const ModelAttention& model, const Deployment& deployment);

}  // namespace fovea::app
