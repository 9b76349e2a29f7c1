// SPDX-License-Identifier: Apache-2.0
// None, causal, window and chunk masks as one thing: the interval of keys that a query at position p sees.
// Freestanding.
#pragma once

#include "shared/convert.h"

namespace fovea {

enum class MaskKind : int {
#define FOVEA_MASK(name, NAME, value, text) name = value,
#include "fovea/masks.def"
#undef FOVEA_MASK
};

struct MaskSpec {
  MaskKind kind = MaskKind::none;
  i64_t window_left = -1;   // keys before p, -1 = all
  i64_t window_right = -1;  // keys after p, -1 = all
  i64_t chunk_size = 0;     // tokens
  i64_t chunk_origin = 0;
  bool operator==(const MaskSpec&) const = default;
};

// Keys lo <= j < hi; empty where hi <= lo.
struct Interval {
  i64_t lo = 0;
  i64_t hi = 0;
  constexpr bool empty() const { return hi <= lo; }
  bool operator==(const Interval&) const = default;
};

constexpr i64_t at_least(i64_t a, i64_t b) {
  return a > b ? a : b;
}
constexpr i64_t at_most(i64_t a, i64_t b) {
  return a < b ? a : b;
}
constexpr Interval intersect(Interval a, Interval b) {
  return {at_least(a.lo, b.lo), at_most(a.hi, b.hi)};
}

FOVEA_COLD constexpr i64_t floor_div(i64_t a, i64_t b) {  // b > 0
  return a / b - (a % b < 0 ? 1 : 0);
}

// The kinds whose interval is p - left .. p + right, -1 = open on that side; false for others.
struct Band {
  i64_t left = -1;
  i64_t right = -1;
};
constexpr bool mask_band(const MaskSpec& m, Band& band) {
  band = m.kind == MaskKind::causal ? Band{-1, 0} : Band{m.window_left, m.window_right};
  if (m.kind == MaskKind::none) band = {};
  return m.kind != MaskKind::chunk;
}

// p may be negative: a query before the first key, where there are more queries than keys.
constexpr Interval mask_interval(const MaskSpec& m, i64_t p, i64_t len) {
  Band band;
  const Interval all = {0, len};
  if (mask_band(m, band)) {
    return intersect(all, {band.left < 0 ? 0 : p - band.left, band.right < 0 ? len : p + band.right + 1});
  }
  return intersect(all, {floor_div(p - m.chunk_origin, m.chunk_size) * m.chunk_size + m.chunk_origin, p + 1});
}

}  // namespace fovea
