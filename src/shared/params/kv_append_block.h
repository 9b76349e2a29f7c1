// SPDX-License-Identifier: Apache-2.0
// kv_append on a device: how a head's vector lies over the lanes of a warp, and the block of kernel parameters.
// Freestanding.
//
// A vector is cut into chunks of `width` neighbours, and chunks are paired into units: where RoPE turns a dim with one
// far away (NeoX; with width 1 also GPT-J), the two chunks of a unit turn with each other; the other chunks are paired
// as they come, half of them apart. A group of lanes holds one vector, `units` units in each lane.
#pragma once

#include "shared/check_report.h"
#include "shared/params/kv_append.h"

namespace fovea {

// Shape of one kind of vector: K, V or Q.
struct AppendShape {
  int d = 0;        // dims
  int main = 0;     // dims before the k_rope part; d where there is none
  int turned = 0;   // first dim that RoPE turns
  int turns = 0;    // dims it turns, 0: none
  int pairs = 0;    // units of two chunks that turn with each other
  int apart = 0;    // dims between those chunks
  int singles = 0;  // chunks that do not
  int lane_bits = 0;
  int lanes = 1;  // of a group: a power of two
  bool operator==(const AppendShape&) const = default;
};

// Can chunks be of eight?
constexpr bool append_is_wide(const AppendShape& s, RopeStyle style, int scale_group) {
  const int unit = s.turns && style == RopeStyle::neox ? s.turns / 2 : s.turns;
  return (s.d | s.main | s.turned | unit | scale_group) % 8 == 0;
}

constexpr int append_units(const AppendShape& s) {
  return s.pairs + (s.singles + 1) / 2;
}

// Fills what follows from the dims for chunks of `width`.
constexpr void append_cut(AppendShape& s, RopeStyle style, int width) {
  const bool neox = style == RopeStyle::neox;
  const int chunks = s.d / width;
  const bool paired = s.turns > 0 && (neox || width == 1);
  s.pairs = paired ? s.turns / 2 / width : 0;
  s.apart = !paired ? 0 : neox ? s.turns / 2 : 1;
  s.singles = chunks - 2 * s.pairs;
  s.lane_bits = 0;
  while (s.lane_bits < 5 && 1 << s.lane_bits < append_units(s)) ++s.lane_bits;
  s.lanes = 1 << s.lane_bits;
}

// First dim of chunk `which` (0 or 1) of a unit; d or above: there is none.
constexpr int append_chunk(const AppendShape& s, int width, int unit, int which) {
  if (unit < s.pairs) return s.turned + unit * (s.apart == 1 ? 2 : width) + which * s.apart;
  const int single = unit - s.pairs + which * ((s.singles + 1) / 2);
  if (unit - s.pairs >= (s.singles + 1) / 2 || single >= s.singles) return s.d;
  const int dim = single * width;
  return s.pairs > 0 && dim >= s.turned ? dim + s.turns : dim;
}

// One kind of vector: where its rows are, and where and how they go. Strides in bytes.
struct AppendRows {
  AppendShape shape;
  int heads = 0;  // 0: none of this kind
  Dtype type = Dtype::none;
  KvStream from;  // page_stride 0; a token is its index
  int copy = 0;   // equal types pass bit by bit
  int round = 0;  // to `type` before it is encoded
  int needs_slot = 0;
  const char* weight = nullptr;  // [main] of the norm; null: no norm
  Dtype weight_type = Dtype::none;
  Dtype to_type = Dtype::none;
  Dtype tail_type = Dtype::none;
  ScaleKind scale_kind = ScaleKind::none;
  Dtype scale_type = Dtype::none;
  int scale_group = 0;  // dims
  KvStream to;
  KvStream tail;
  KvStream scale;
};

// Numbers in memory, [rows, n] or [n]: i32 or i64, or rows of f32 tables. Strides in bytes.
struct AppendNumbers {
  const char* data = nullptr;  // null: not given
  i64_t row_stride = 0;
  i64_t stride = 0;
  int wide = 0;  // i64

  i64_t at(i64_t row, i64_t i) const {
    const char* p = data + row * row_stride + i * stride;
    return wide ? load<i64_t>(p) : load<i32_t>(p);
  }
  float f32_at(i64_t row, i64_t i) const { return load<float>(data + row * row_stride + i * stride); }
};

// Places in dynamic shared memory, bytes.
struct AppendSmem {
  int inv_freq = 0;     // f64 [pairs]
  int angles = 0;       // f32 [2 (cos, sin), 2 buffers], each of angle_bytes
  int angle_bytes = 0;  // a multiple of 16
  int most = 0;         // u32 [warps, 2 * units * 32], of rows whose groups have scales
};
constexpr AppendSmem append_smem(int pairs) {
  AppendSmem smem;
  smem.angle_bytes = (pairs + 3) / 4 * 16;
  smem.angles = smem.angle_bytes * 2;
  smem.most = smem.angles + 4 * smem.angle_bytes;
  return smem;
}

// Kinds of index in a CheckReport; its count is of vectors (or groups) that held NaN or Inf.
enum class AppendReport : int { slot = 0, position = 1 };

struct KvAppendBlock {
  i64_t tokens = 0;
  i64_t pages = 0;
  int page_size = 0;
  int check_only = 0;             // look at slots and positions, write nothing but the report
  u32_t* status = nullptr;        // sticky; may be null
  CheckReport* report = nullptr;  // may be null
  AppendRows rows[3];             // K, V, Q
  AppendNumbers slot_mapping;     // [tokens]
  // RoPE; rotary_dim 0: none.
  int rotary_dim = 0;
  RopeStyle style = RopeStyle::neox;
  int position_rows = 1;
  i64_t position_limit = 0;
  AppendNumbers positions;  // [position rows, tokens]
  AppendNumbers cos;        // f32 [positions, rotary_dim / 2]; not given: they are computed
  AppendNumbers sin;
  float norm_eps = 0;
  float norm_weight_offset = 0;
  RotaryTable table;
};
static_assert(sizeof(KvAppendBlock) <= 4096, "kernel parameters of every driver");

}  // namespace fovea
