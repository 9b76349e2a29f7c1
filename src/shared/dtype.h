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

constexpr int dtype_block(Dtype t) {
  const DtypeRow* row = find_dtype(static_cast<int>(t));
  return row ? row->block : 1;
}

constexpr int dtype_block_bytes(Dtype t) {
  const DtypeRow* row = find_dtype(static_cast<int>(t));
  return row ? row->bytes : 0;
}

}  // namespace fovea
