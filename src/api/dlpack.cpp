// SPDX-License-Identifier: Apache-2.0
#include "fovea/dlpack.h"

#include <algorithm>
#include <string>

#include "api/context.h"
#include "base/tensor.h"

namespace fovea {

namespace {

struct DlType {
  int code, bits;
  int32_t dtype;
};

// DLPack's codes: 0 signed, 1 unsigned, 2 IEEE float, 4 bfloat, 10 float8_e4m3fn.
constexpr DlType kDlTypes[] = {
    {2, 32, FOVEA_F32}, {2, 16, FOVEA_F16}, {4, 16, FOVEA_BF16}, {10, 8, FOVEA_E4M3}, {1, 8, FOVEA_U8},
    {0, 32, FOVEA_I32}, {1, 32, FOVEA_U32}, {0, 64, FOVEA_I64},  {1, 64, FOVEA_U64},
};

int32_t dtype_of(const fovea_dl_tensor& dl) {
  const auto* row = std::find_if(std::begin(kDlTypes), std::end(kDlTypes),
                                 [&](const DlType& t) { return t.code == dl.type_code && t.bits == dl.type_bits; });
  return row == std::end(kDlTypes) ? FOVEA_DTYPE_NONE : row->dtype;
}

Status check_dlpack(const fovea_dl_tensor& dl) {
  if (dl.type_lanes != 1) return invalid_value("dl.type_lanes", dl.type_lanes, "must be 1");
  if (dtype_of(dl) == FOVEA_DTYPE_NONE) {
    return {FOVEA_INVALID_TYPE, "dl.type_code is " + std::to_string(dl.type_code) + " and dl.type_bits " +
                                    std::to_string(dl.type_bits) + ": no such element type"};
  }
  if (dl.ndim < 0 || dl.ndim > FOVEA_MAX_RANK) {
    return invalid_value("dl.ndim", dl.ndim, "must be 0 to " + std::to_string(FOVEA_MAX_RANK));
  }
  if (dl.ndim > 0 && dl.shape == nullptr) return invalid_value("dl.shape", "null", "must have ndim entries");
  return {};
}

Status from_dlpack(const fovea_dl_tensor* dl, fovea_tensor* out) {
  if (dl == nullptr) return invalid_value("dl", "null", "must be a DLTensor");
  if (out == nullptr) return invalid_value("out", "null", "must point to where the view goes");
  FOVEA_TRY(check_dlpack(*dl));
  fovea_tensor t{.data = dl->data, .dtype = dtype_of(*dl), .rank = dl->ndim};
  t.device_type = dl->device_type;
  t.device_id = dl->device_id;
  for (int32_t i = 0; i < dl->ndim; ++i) {
    if (dl->shape[i] < 0) {
      return invalid_value("dl.shape[" + std::to_string(i) + "]", dl->shape[i], "must not be negative");
    }
    t.shape[i] = dl->shape[i];
  }
  int64_t packed = 1;
  for (int32_t i = dl->ndim - 1; i >= 0; --i) {
    t.stride[i] = dl->strides ? dl->strides[i] : packed;
    if (__builtin_mul_overflow(packed, std::max<int64_t>(dl->shape[i], 1), &packed)) {
      return invalid_value("dl.shape", shape_text(t), "has more elements than 64 bits count");
    }
  }
  if (t.data != nullptr) t.data = static_cast<char*>(t.data) + dl->byte_offset;
  *out = t;
  return {};
}

}  // namespace
}  // namespace fovea

extern "C" fovea_status fovea_tensor_from_dlpack(const fovea_dl_tensor* dl, fovea_tensor* out) {
  return fovea::guarded([&] { return fovea::from_dlpack(dl, out); });
}
