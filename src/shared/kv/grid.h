// SPDX-License-Identifier: Apache-2.0
// The levels that quantised K and V are stored on. A vector is scale * R^-1 * level[code]: one scale for all its
// elements, in the basis of rotation.h. Freestanding. docs/kv-formats.md
#pragma once

#include "shared/convert.h"
#include "shared/exact.h"

namespace fovea {

enum class Grid : int { i8, q6, q5, q4, q3, q2 };
inline constexpr int kGrids = 6;

// i8: whole numbers from -127 to 127, code = level in two's complement. q6 and q5: n levels half a step apart from
// zero, code = level + (n - 1) / 2. q4, q3, q2: sign and magnitude, code = sign << (bits - 1) | index; the magnitudes
// are those that Lloyd's rule gives for a Gaussian, moved to the nearest numbers that e4m3 holds.
struct GridRow {
  Grid grid;
  const char* name;
  int bits;
  int per_unit;       // levels are stored as whole numbers of 1 / per_unit
  int magnitudes[8];  // of sign and magnitude; else none
};

inline constexpr GridRow kGridRows[kGrids] = {
    {Grid::i8, "i8", 8, 1, {}},
    {Grid::q6, "q6", 6, 2, {}},
    {Grid::q5, "q5", 5, 2, {}},
    {Grid::q4, "q4", 4, 64, {9, 26, 44, 64, 88, 112, 144, 192}},
    {Grid::q3, "q3", 3, 8, {3, 9, 16, 26}},
    {Grid::q2, "q2", 2, 4, {3, 10}},
};

constexpr const GridRow& grid_row(Grid g) {
  return kGridRows[static_cast<int>(g)];
}
constexpr bool grid_has_signs(Grid g) {
  return grid_row(g).magnitudes[0] != 0;
}

// The level of a code, times per_unit: every one is a whole number.
constexpr int grid_level(Grid g, u32_t code) {
  const GridRow& row = grid_row(g);
  if (g == Grid::i8) return static_cast<signed char>(code);
  if (!grid_has_signs(g)) return 2 * static_cast<int>(code) + 1 - (1 << row.bits);
  const u32_t sign = code >> (row.bits - 1);
  const int magnitude = row.magnitudes[code & ((1u << (row.bits - 1)) - 1)];
  return sign ? -magnitude : magnitude;
}

// Exact: per_unit is a power of two.
constexpr float grid_value(Grid g, u32_t code) {
  return static_cast<float>(grid_level(g, code)) * (1.0f / static_cast<float>(grid_row(g).per_unit));
}

// The code whose level is nearest to x (finite). Halfway: i8 the even one, signs and magnitudes the smaller magnitude,
// q6 and q5 the higher level, by x + levels / 2 as f32 has it. Zero of either sign is positive.
inline u32_t grid_code(Grid g, float x) {
  const GridRow& row = grid_row(g);
  const float magnitude = x < 0 ? -x : x;
  if (g == Grid::i8) {
    if (magnitude >= 127) return static_cast<u8_t>(x < 0 ? -127 : 127);
    const auto rounded = static_cast<int>(sub_rn(add_rn(magnitude, 0x1p23f), 0x1p23f));
    return static_cast<u8_t>(x < 0 ? -rounded : rounded);
  }
  const int half = 1 << (row.bits - 1);
  if (!grid_has_signs(g)) {
    const float above = add_rn(x, static_cast<float>(half));
    if (above <= 0) return 0;
    return above >= static_cast<float>(2 * half) ? static_cast<u32_t>(2 * half - 1) : static_cast<u32_t>(above);
  }
  u32_t index = 0;
  for (int i = 1; i < half; ++i) {
    const int twice = row.magnitudes[i - 1] + row.magnitudes[i];  // the border, exact in f32
    index += magnitude > static_cast<float>(twice) * (0.5f / static_cast<float>(row.per_unit));
  }
  return index | (x < 0 ? static_cast<u32_t>(half) : 0);
}

}  // namespace fovea
