// SPDX-License-Identifier: Apache-2.0
// Checks of what sample and verify have in common: everything that shapes the distribution of a row.
#pragma once

#include "fovea/params.h"
#include "ops/op.h"
#include "shared/params/sample.h"

namespace fovea {

// Sample has a value per row of logits; verify one per request, and a row per node.
struct SampleRows {
  int64_t rows;  // that have values
  const char* why;
};

Status check_logits(const fovea_sample_params& p, Place where);
// Fills the members of `spec` but tokens and outputs.
Status check_sampling(const fovea_sample_params& p, const SampleRows& rows, Place where, SampleSpec& spec);
Status check_rows(const char* name, const fovea_tensor& t, std::span<const int32_t> types, const SampleRows& rows,
                  Place where);
Status bind_sampling(const fovea_sample_params& p, const SampleSpec& spec, SampleArgs& args);

}  // namespace fovea
