// SPDX-License-Identifier: Apache-2.0
// A record: all that a page holds of one kv head, in one piece of memory. Planes of K, a rope part of K, planes of V,
// scales of K, scales of V; each plane has a row for each token. Freestanding. docs/kv-formats.md
#pragma once

#include "shared/convert.h"
#include "shared/kv/grid.h"
#include "shared/kv/planes.h"

namespace fovea {

inline constexpr int kRecordVersion = 1;
inline constexpr int kRecordAlign = 128;  // bytes

// What a record holds of K or of V.
struct RecordSide {
  int row_bytes[2] = {};  // of a token in its planes; 0: there is none
  int scale_bytes = 0;    // of a token; 0: scales are not in the record
};
constexpr RecordSide record_side(Grid g, int d, int scale_bytes) {
  const PlaneBits planes = grid_planes(g);
  return {{plane_row_bytes(planes.bits[0], d), plane_row_bytes(planes.bits[1], d)}, scale_bytes};
}

struct RecordLayout {
  i64_t k_plane[2] = {};  // bytes from the start of the record; of what is absent 0
  i64_t k_rope = 0;
  i64_t v_plane[2] = {};
  i64_t k_scale = 0;
  i64_t v_scale = 0;
  i64_t bytes = 0;  // to the next record
};

constexpr bool is_record_page(int page_size) {
  return page_size == 16 || page_size == 32 || page_size == 64 || page_size == 128;
}

// rope_bytes: of a token. Sections begin at multiples of 128 bytes, in pages of less than 64 tokens of 16; a plane that
// is the second of its side follows the first.
constexpr RecordLayout record_layout(int page_size, const RecordSide& k, const RecordSide& v, int rope_bytes) {
  const i64_t align = page_size >= 64 ? kRecordAlign : 16;
  RecordLayout layout;
  i64_t at = 0;
  const auto section = [&](i64_t& start, int bytes_per_token) {
    if (bytes_per_token == 0) return;
    at = (at + align - 1) / align * align;
    start = at;
    at += static_cast<i64_t>(page_size) * bytes_per_token;
  };
  const auto planes = [&](i64_t(&start)[2], const RecordSide& side) {
    section(start[0], side.row_bytes[0]);
    if (side.row_bytes[1] == 0) return;
    start[1] = at;
    at += static_cast<i64_t>(page_size) * side.row_bytes[1];
  };
  planes(layout.k_plane, k);
  section(layout.k_rope, rope_bytes);
  planes(layout.v_plane, v);
  section(layout.k_scale, k.scale_bytes);
  section(layout.v_scale, v.scale_bytes);
  layout.bytes = (at + kRecordAlign - 1) / kRecordAlign * kRecordAlign;
  return layout;
}

}  // namespace fovea
