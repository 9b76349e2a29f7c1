// SPDX-License-Identifier: Apache-2.0
// attention: what a lane has of scores and outputs. A warp works on kMTiles x 16 rows; of 16 rows by 16 keys or dims
// (two tiles j of eight) a lane has two rows h and four columns (j % 2, e):
//
//                      row                                            columns               lanes that share a row
//   m16n8 (SM75 on)    l / 4 + 8 h                                    8 j + 2 (l % 4) + e   differ in bits 0 and 1
//   m8n8 (SM70)        8 bit 2 + 4 bit 4 + bit 0 + 2 h                8 bit 3 + 2 bit 1 + 4 j + e    in bits 1 and 3
//
// Of m8n8's four quad-pairs, bit 2 of the lane says which rows and bit 3 which columns are theirs.
#pragma once

#include "backend/cuda/kernels/attention_copy.cuh"

namespace fovea {

constexpr int kNTiles = kKeys / 8;
constexpr int kOTiles = config::d_v / 8;
constexpr int kQPart = config::block_rows * QRows::kStride;  // bytes from the first to the second part of Q

using Scores = float[kMTiles][kNTiles][4];  // [2 h + e]
using Output = float[kMTiles][kOTiles][4];

inline int fragment_row(int lane, int h) {
  if constexpr (family::kQuadPairs) return (lane & 4) * 2 + (lane & 16) / 4 + (lane & 1) + 2 * h;
  return lane / 4 + 8 * h;
}
// Rows of one h are eight: which of them the lane has, and which row that is.
inline int fragment_slot(int lane) {
  return family::kQuadPairs ? (lane & 4) | (lane & 16) / 8 | (lane & 1) : lane / 4;
}
inline int row_of_slot(int slot, int h) {
  return family::kQuadPairs ? (slot & 4) * 2 + (slot & 2) * 2 + (slot & 1) + 2 * h : slot + 8 * h;
}
// The column of tile j and e is fragment_column(lane) + fragment_step(j, e).
inline int fragment_column(int lane) {
  if constexpr (family::kQuadPairs) return (lane & 8) + (lane & 2);
  return lane % 4 * 2;
}
constexpr int fragment_step(int j, int e) {
  return family::kQuadPairs ? j / 2 * 16 + j % 2 * 4 + e : j * 8 + e;
}
// Of the lanes that share a row: one, and the steps over which they reduce.
inline bool leads_row(int lane) {
  return family::kQuadPairs ? (lane & 10) == 0 : lane % 4 == 0;
}
constexpr int kRowStep1 = family::kQuadPairs ? 2 : 1, kRowStep2 = family::kQuadPairs ? 8 : 2;
// Where the score of a key is: 2 j + e, and which lane of those that share this lane's row has it.
inline int fragment_of_key(int key) {
  return family::kQuadPairs ? key / 16 * 4 + (key & 4) / 2 + key % 2 : key / 8 * 2 + key % 2;
}
inline int lane_of_key(int lane, int key) {
  return family::kQuadPairs ? (lane & ~10) | (key & 10) : lane / 4 * 4 + key % 8 / 2;
}
// The dim of o[i][j][2 h + e]. m16n8 reads V's bytes in pairs: even dims go to one tile, odd ones to the next.
constexpr bool kPairedO = kV8 && !family::kQuadPairs;
inline int o_dim(int j, int e, int lane) {
  return kPairedO ? j / 2 * 16 + lane % 4 * 4 + 2 * e + j % 2 : fragment_column(lane) + fragment_step(j, e);
}

}  // namespace fovea
