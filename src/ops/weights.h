// SPDX-License-Identifier: Apache-2.0
// Checks of weights that matmul and embed share.
#pragma once

#include "base/tensor.h"
#include "shared/weights/scale.h"

namespace fovea {

struct WeightNames {
  const char* w;
  const char* scale;
};

// w [n, k] of any type of weights, its scales where they belong to it; `kind` receives what one of them covers.
Status check_weights(const WeightNames& names, const fovea_tensor& w, const fovea_tensor& scale, Place where,
                     WeightScale& kind);

}  // namespace fovea
