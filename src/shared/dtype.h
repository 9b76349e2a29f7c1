// SPDX-License-Identifier: Apache-2.0
// Element types as numbers. Freestanding.
#pragma once

namespace fovea {

struct DtypeRow {
  int value;
  int block;  // elements
  int bytes;  // of one block
  const char* name;
};

inline constexpr DtypeRow kDtypes[] = {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) {value, block, bytes, #name},
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};

enum class Dtype : int {
  none = 0,
#define FOVEA_DTYPE(name, NAME, value, block, bytes) name = value,
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};

constexpr const DtypeRow* find_dtype(int value) {
  for (const DtypeRow& row : kDtypes) {
    if (row.value == value) return &row;
  }
  return nullptr;
}

// Switches, so that code over a known type folds and the rest is a jump.
constexpr int dtype_block(Dtype t) {
  switch (t) {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) \
  case Dtype::name:                                  \
    return block;
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
    default:
      return 1;
  }
}

constexpr int dtype_block_bytes(Dtype t) {
  switch (t) {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) \
  case Dtype::name:                                  \
    return bytes;
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
    default:
      return 0;
  }
}

}  // namespace fovea
