// SPDX-License-Identifier: Apache-2.0
// How a KV cache stores one vector, and what its scales cover: facts of each codec and scale kind. Freestanding.
#pragma once

#include "shared/convert.h"
#include "shared/dtype.h"
#include "shared/kv/grid.h"

namespace fovea {

enum class Codec : int {
  none = 0,
#define FOVEA_CODEC(name, NAME, value, dtype) name = value,
#include "fovea/codecs.def"
#undef FOVEA_CODEC
};

struct CodecRow {
  int value;
  const char* name;
  int dtype;  // of the stored element
};

namespace detail {
enum DtypeValue {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) dtype_value_##NAME = value,
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};
}  // namespace detail

inline constexpr CodecRow kCodecs[] = {
#define FOVEA_CODEC(name, NAME, value, dtype) {value, #name, detail::dtype_value_##dtype},
#include "fovea/codecs.def"
#undef FOVEA_CODEC
};

constexpr const CodecRow* find_codec(int value) {
  for (const CodecRow& row : kCodecs) {
    if (row.value == value) return &row;
  }
  return nullptr;
}

// The stored element's type; none for no codec.
constexpr Dtype codec_dtype(Codec c) {
  const CodecRow* row = find_codec(static_cast<int>(c));
  return row ? static_cast<Dtype>(row->dtype) : Dtype::none;
}

// Codecs of codes on a grid: rotated, with a scale of each token and head, in records.
constexpr bool codec_is_grid(Codec c) {
  return c >= Codec::i8 && c <= Codec::q2;
}
constexpr Grid codec_grid(Codec c) {
  return static_cast<Grid>(static_cast<int>(c) - static_cast<int>(Codec::i8));
}
static_assert(codec_grid(Codec::q6) == Grid::q6 && codec_grid(Codec::q2) == Grid::q2);

// Codecs whose elements mean nothing without a scale: a cache without one is refused.
constexpr bool codec_needs_scale(Codec c) {
  return c == Codec::fp8 || codec_is_grid(c);
}

enum class ScaleKind : int {
#define FOVEA_SCALE_KIND(name, NAME, value, text) name = value,
#include "fovea/scale_kinds.def"
#undef FOVEA_SCALE_KIND
};

struct ScaleKindRow {
  int value;
  const char* name;
};

inline constexpr ScaleKindRow kScaleKinds[] = {
#define FOVEA_SCALE_KIND(name, NAME, value, text) {value, #name},
#include "fovea/scale_kinds.def"
#undef FOVEA_SCALE_KIND
};

constexpr const ScaleKindRow* find_scale_kind(int value) {
  for (const ScaleKindRow& row : kScaleKinds) {
    if (row.value == value) return &row;
  }
  return nullptr;
}

}  // namespace fovea
