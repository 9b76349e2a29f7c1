// SPDX-License-Identifier: Apache-2.0
// Where the bits of codes lie. No code crosses a byte: codes of 6, 5 and 3 bits lie in two planes. Rows are whole words
// of 32 bits, little-endian; within a word codes lie as kernels unpack them. Freestanding. docs/kv-formats.md
#pragma once

#include "shared/convert.h"
#include "shared/kv/grid.h"

namespace fovea {

// Bits of a code in the first and in the second plane.
struct PlaneBits {
  int bits[2];
};
constexpr PlaneBits grid_planes(Grid g) {
  switch (g) {
    case Grid::i8:
      return {{8, 0}};
    case Grid::q6:
      return {{4, 2}};
    case Grid::q5:
      return {{4, 1}};
    case Grid::q4:
      return {{4, 0}};
    case Grid::q3:
      return {{2, 1}};
    default:
      return {{2, 0}};
  }
}

constexpr int plane_row_bytes(int bits, int d) {
  return (bits * d + 31) / 32 * 4;
}

// In a word of 4 code pieces the code i % 8 has nibble i % 8. The signs of q4 have the top bits of nibbles, but not of
// their own: those of codes 0 to 3 are the top bits of bytes, those of 4 to 7 become it when the word moves up by 4. In
// a word of 2-bit pieces the first 8 codes have the low halves of nibbles, the others the high ones (q3, q2). Those of
// q6 lie by 16-bit halves of the word, as its other pieces do once two of them are taken out of a word together.
// In a word of 1-bit pieces the signs of q3 are the top bits of bytes when the word has moved up by i / 4; those of q5
// lie by 16-bit halves.
struct BitPlace {
  int plane;
  int bit;  // of the row, from bit 0 of byte 0 on
};
constexpr BitPlace bit_place(Grid g, int i, int bit) {
  const int nibble = i % 8, half = 16 * (nibble / 4), lane = nibble % 4;
  switch (g) {
    case Grid::i8:
      return {0, 8 * i + bit};
    case Grid::q4:
      if (bit == 3) return {0, i / 8 * 32 + (nibble < 4 ? 8 * nibble + 7 : 8 * (nibble - 4) + 3)};
      return {0, 4 * i + bit};
    case Grid::q6:
      if (bit >= 4) return {1, i / 16 * 32 + half + 2 * (lane + 4 * (i % 16 / 8)) + bit - 4};
      return {0, 4 * i + bit};
    case Grid::q5:
      if (bit == 4) return {1, i / 32 * 32 + half + lane + 4 * (i % 32 / 8)};
      return {0, 4 * i + bit};
    default:
      if (g == Grid::q3 && bit == 2) return {1, i / 32 * 32 + 8 * (i % 4) + 7 - i % 32 / 4};
      return {0, i / 16 * 32 + 4 * nibble + 2 * (i % 16 / 8) + bit};
  }
}

// A run of bits of a code that stay together: `bits` of them from bit `from` on.
struct CodePiece {
  int from;
  int bits;
};
struct CodePieces {
  int count;
  CodePiece piece[2];
};
constexpr CodePieces grid_pieces(Grid g) {
  switch (g) {
    case Grid::i8:
      return {1, {{0, 8}}};
    case Grid::q6:
      return {2, {{0, 4}, {4, 2}}};
    case Grid::q5:
      return {2, {{0, 4}, {4, 1}}};
    case Grid::q4:
      return {2, {{0, 3}, {3, 1}}};
    case Grid::q3:
      return {2, {{0, 2}, {2, 1}}};
    default:
      return {1, {{0, 2}}};
  }
}

// Rows of one vector in its planes; the second is not touched where the grid has one.
struct PlaneRows {
  u8_t* plane[2];
};
inline void pack_codes(Grid g, const u8_t* codes, int d, const PlaneRows& to) {
  const PlaneBits planes = grid_planes(g);
  for (int p = 0; p < 2; ++p) {
    for (int i = 0; i < plane_row_bytes(planes.bits[p], d); ++i) to.plane[p][i] = 0;
  }
  const CodePieces pieces = grid_pieces(g);
  for (int i = 0; i < d; ++i) {
    for (int k = 0; k < pieces.count; ++k) {
      const CodePiece piece = pieces.piece[k];
      const BitPlace at = bit_place(g, i, piece.from);
      const u32_t value = codes[i] >> piece.from & ((1u << piece.bits) - 1);
      u8_t& byte = to.plane[at.plane][at.bit / 8];
      byte = static_cast<u8_t>(byte | value << at.bit % 8);
    }
  }
}
inline u32_t code_at(Grid g, const PlaneRows& rows, int i) {
  u32_t code = 0;
  const CodePieces pieces = grid_pieces(g);
  for (int k = 0; k < pieces.count; ++k) {
    const CodePiece piece = pieces.piece[k];
    const BitPlace at = bit_place(g, i, piece.from);
    code |= (static_cast<u32_t>(rows.plane[at.plane][at.bit / 8]) >> at.bit % 8 & ((1u << piece.bits) - 1))
            << piece.from;
  }
  return code;
}

}  // namespace fovea
