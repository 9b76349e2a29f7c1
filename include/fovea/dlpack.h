/* SPDX-License-Identifier: Apache-2.0
 * Tensors in from DLPack 1.x. The struct below has the memory layout of DLPack's DLTensor; a DLTensor* may be passed as
 * fovea_dl_tensor*. Part of fovea.h.
 */
#ifndef FOVEA_DLPACK_H_
#define FOVEA_DLPACK_H_

#include "fovea/core.h"

FOVEA_EXTERN_C_BEGIN

typedef struct fovea_dl_tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t type_code; /* 0 int, 1 uint, 2 float, 4 bfloat, 10 float8_e4m3fn */
  uint8_t type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides; /* elements; null = packed */
  uint64_t byte_offset;
} fovea_dl_tensor;

/* INVALID_TYPE for a type without a row in dtypes.def, INVALID_VALUE for a rank above FOVEA_MAX_RANK or lanes other
 * than 1. */
FOVEA_API fovea_status fovea_tensor_from_dlpack(const fovea_dl_tensor* dl, fovea_tensor* out);

FOVEA_EXTERN_C_END

#endif /* FOVEA_DLPACK_H_ */
