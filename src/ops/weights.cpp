// SPDX-License-Identifier: Apache-2.0
#include "ops/weights.h"

#include "shared/weights/weights.h"

namespace fovea {

Status check_weights(const WeightNames& names, const fovea_tensor& w, const fovea_tensor& scale, Place where,
                     WeightScale& kind) {
  kind = WeightScale::none;
  FOVEA_TRY(check_tensor(names.w, w, kWeightTypes.values, 2, 2, where));
  if (w.dtype != FOVEA_E4M3) return check_absent(names.scale, scale, "scales are of e4m3 weights alone");
  const int64_t n = w.shape[0], n_blocks = weight_scale_blocks(n), k_blocks = weight_scale_blocks(w.shape[1]);
  const std::string allowed =
      "[1], [" + std::to_string(n) + "] or [" + std::to_string(n_blocks) + ", " + std::to_string(k_blocks) + "]";
  if (!present(scale)) return invalid_value(names.scale, "absent", "e4m3 weights need scales: " + allowed);
  FOVEA_TRY(check_tensor(names.scale, scale, kFloatTypes, 1, 2, where));
  if (scale.rank == 1 && scale.shape[0] == 1) {
    kind = WeightScale::tensor;
  } else if (scale.rank == 1 && scale.shape[0] == n) {
    kind = WeightScale::channel;
  } else if (scale.rank == 2 && scale.shape[0] == n_blocks && scale.shape[1] == k_blocks) {
    kind = WeightScale::block;
  } else {
    return invalid_value(std::string(names.scale) + ".shape", shape_text(scale), "must be " + allowed);
  }
  return {};
}

}  // namespace fovea
