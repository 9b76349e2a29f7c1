// SPDX-License-Identifier: Apache-2.0
#include "oracle/kv64.h"

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "oracle/grid64.h"
#include "oracle/numbers.h"

namespace fovea::oracle {

int64_t element_offset(const fovea_tensor& t, int64_t i) {
  int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    offset += i % t.shape[d] * t.stride[d];
    i /= t.shape[d];
  }
  return offset;
}

int64_t index_at(const fovea_tensor& t, int64_t i) {
  const std::byte* at = static_cast<const std::byte*>(t.data) + element_offset(t, i) * bytes_of(t.dtype);
  int32_t narrow;
  int64_t wide;
  if (t.dtype == FOVEA_I64) {
    std::memcpy(&wide, at, 8);
    return wide;
  }
  std::memcpy(&narrow, at, 4);
  return narrow;
}

int64_t kv_len(const fovea_kv& kv, int64_t b) {
  if (kv.kv_lens.dtype) return index_at(kv.kv_lens, b);
  return index_at(kv.cu_seqlens_kv, b + 1) - index_at(kv.cu_seqlens_kv, b);
}

int64_t kv_start(const fovea_kv& kv, int64_t b) {
  return kv.starts.dtype ? index_at(kv.starts, b) : 0;
}

bool kv_holds(const fovea_kv& kv, int64_t t) {
  return t / kv.shard_interleave % kv.shard_world == kv.shard_rank;
}

int64_t kv_local(const fovea_kv& kv, int64_t t) {
  const int64_t round = t / kv.shard_interleave / kv.shard_world;
  return round * kv.shard_interleave + t % kv.shard_interleave;
}

Slot kv_slot(const fovea_kv& kv, int64_t b, int64_t t, bool of_v) {
  const int64_t local = kv_local(kv, t);
  if (kv.cu_seqlens_kv.dtype) return {0, index_at(kv.cu_seqlens_kv, b) + local};
  if (!kv.page_table.dtype) return {b, local};
  const fovea_tensor& table = of_v && kv.v_page_table.dtype ? kv.v_page_table : kv.page_table;
  const int64_t column = local / kv.page_size;
  const int64_t entry =
      kv.page_indptr.dtype ? index_at(kv.page_indptr, b) + column : b * table.shape[table.rank - 1] + column;
  return {index_at(table, entry), local % kv.page_size};
}

std::byte* kv_address(const fovea_kv_stream& stream, Slot slot, int64_t head) {
  return static_cast<std::byte*>(stream.base) + slot.page * stream.page_stride + slot.offset * stream.token_stride +
         head * stream.head_stride;
}

int32_t codec_dtype(int32_t codec) {
  switch (codec) {
    case FOVEA_CODEC_F32:
      return FOVEA_F32;
    case FOVEA_CODEC_F16:
      return FOVEA_F16;
    case FOVEA_CODEC_BF16:
      return FOVEA_BF16;
    case FOVEA_CODEC_FP8:
      return FOVEA_E4M3;
    case FOVEA_CODEC_I8:
    case FOVEA_CODEC_Q6:
    case FOVEA_CODEC_Q5:
    case FOVEA_CODEC_Q4:
    case FOVEA_CODEC_Q3:
    case FOVEA_CODEC_Q2:
      return FOVEA_U8;
    default:
      throw std::invalid_argument("unknown codec");
  }
}

std::byte* scale_address(const fovea_kv_side& side, Slot slot, int64_t head, int64_t dim) {
  auto* base = static_cast<std::byte*>(side.scale.base);
  switch (side.scale_kind) {
    case FOVEA_SCALE_TENSOR:
      return base;
    case FOVEA_SCALE_HEAD:
      return base + head * side.scale.head_stride;
    case FOVEA_SCALE_TOKEN_HEAD:
      return kv_address(side.scale, slot, head);
    case FOVEA_SCALE_GROUP:
      return kv_address(side.scale, slot, head) + dim / side.scale_group * bytes_of(side.scale_dtype);
    default:
      throw std::invalid_argument("unknown scale kind");
  }
}

double side_at(const fovea_kv_side& side, Slot slot, int64_t head, int64_t dim) {
  const int32_t dtype = codec_dtype(side.codec);
  const double stored = decode(dtype, kv_address(side.data, slot, head) + dim * bytes_of(dtype));
  if (side.scale_kind == FOVEA_SCALE_NONE) return stored;
  return stored * decode(side.scale_dtype, scale_address(side, slot, head, dim));
}

double k_at(const fovea_kv& kv, Slot slot, int64_t head, int64_t dim) {
  const int64_t tail = dim - (kv.d_k - kv.d_rope);
  if (tail < 0) return side_at(kv.k, slot, head, dim);
  return decode(kv.rope_dtype, kv_address(kv.k_rope, slot, head) + tail * bytes_of(kv.rope_dtype));
}

double v_at(const fovea_kv& kv, Slot slot, int64_t head, int64_t dim) {
  return kv.v_in_k ? k_at(kv, slot, head, dim) : side_at(kv.v, slot, head, dim);
}

const char* grid_of(int32_t codec) {
  switch (codec) {
    case FOVEA_CODEC_I8:
      return "i8";
    case FOVEA_CODEC_Q6:
      return "q6";
    case FOVEA_CODEC_Q5:
      return "q5";
    case FOVEA_CODEC_Q4:
      return "q4";
    case FOVEA_CODEC_Q3:
      return "q3";
    case FOVEA_CODEC_Q2:
      return "q2";
    default:
      return nullptr;
  }
}

namespace {

int bits_of_plane(int32_t codec, int plane) {
  switch (codec) {
    case FOVEA_CODEC_I8:
      return plane ? 0 : 8;
    case FOVEA_CODEC_Q6:
      return plane ? 2 : 4;
    case FOVEA_CODEC_Q5:
      return plane ? 1 : 4;
    case FOVEA_CODEC_Q4:
      return plane ? 0 : 4;
    case FOVEA_CODEC_Q3:
      return plane ? 1 : 2;
    default:
      return plane ? 0 : 2;
  }
}

// Where bit `bit` of code i lies: the plane and the bit of its row, from the table of docs/kv-formats.md.
std::pair<int, int64_t> place_of(int32_t codec, int64_t i, int bit) {
  const auto in_word = [&](int codes, int64_t at) { return i / codes * 32 + at; };
  switch (codec) {
    case FOVEA_CODEC_I8:
      return {0, 8 * i + bit};
    case FOVEA_CODEC_Q4:
      if (bit == 3) return {0, in_word(8, i % 8 < 4 ? 8 * (i % 8) + 7 : 8 * (i % 8 - 4) + 3)};
      return {0, 4 * i + bit};
    case FOVEA_CODEC_Q6:
      if (bit < 4) return {0, 4 * i + bit};
      return {1, in_word(16, i % 8 / 4 * 16 + 2 * (i % 4 + 4 * (i % 16 / 8)) + bit - 4)};
    case FOVEA_CODEC_Q5:
      if (bit < 4) return {0, 4 * i + bit};
      return {1, in_word(32, i % 8 / 4 * 16 + i % 4 + 4 * (i % 32 / 8))};
    case FOVEA_CODEC_Q3:
      if (bit == 2) return {1, in_word(32, 8 * (i % 4) + 7 - i % 32 / 4)};
      [[fallthrough]];
    default:
      return {0, in_word(16, 4 * (i % 8) + (i % 16 < 8 ? 0 : 2) + bit)};
  }
}

int bits_of(int32_t codec) {
  return bits_of_plane(codec, 0) + bits_of_plane(codec, 1);
}

const std::vector<double>& rotation_of(int64_t dims) {
  static std::map<int64_t, std::vector<double>> all;
  std::vector<double>& r = all[dims];
  if (r.empty()) r = rotation(static_cast<int>(dims));
  return r;
}

}  // namespace

int64_t plane_bytes(int32_t codec, int plane, int64_t dims) {
  return (bits_of_plane(codec, plane) * dims + 31) / 32 * 4;
}

std::byte* plane_row(const fovea_kv& kv, const fovea_kv_side& side, Slot slot, int64_t head, int plane, int64_t dims) {
  std::byte* first = kv_address(side.data, {slot.page, 0}, head);
  const int64_t low = plane_bytes(side.codec, 0, dims);
  return plane == 0 ? first + slot.offset * low
                    : first + kv.page_size * low + slot.offset * plane_bytes(side.codec, 1, dims);
}

std::vector<double> vector_at(const fovea_kv& kv, const fovea_kv_side& side, Slot slot, int64_t head, int64_t dims) {
  std::vector<double> x;
  if (grid_of(side.codec) == nullptr) {
    for (int64_t d = 0; d < dims; ++d) x.push_back(side_at(side, slot, head, d));
    return x;
  }
  Encoded e{std::vector<int>(static_cast<size_t>(dims)), 0};
  for (int64_t i = 0; i < dims; ++i) {
    for (int bit = 0; bit < bits_of(side.codec); ++bit) {
      const auto [plane, at] = place_of(side.codec, i, bit);
      const std::byte byte = plane_row(kv, side, slot, head, plane, dims)[at / 8];
      e.codes[static_cast<size_t>(i)] |= (std::to_integer<int>(byte) >> at % 8 & 1) << bit;
    }
  }
  e.scale = decode(side.scale_dtype, kv_address(side.scale, slot, head)) * kv.prescale;
  return decode(grid_of(side.codec), rotation_of(dims), e);
}

std::vector<double> k_vector(const fovea_kv& kv, Slot slot, int64_t head) {
  std::vector<double> x = vector_at(kv, kv.k, slot, head, kv.d_k - kv.d_rope);
  for (int64_t d = kv.d_k - kv.d_rope; d < kv.d_k; ++d) x.push_back(k_at(kv, slot, head, d));
  return x;
}

std::vector<double> v_vector(const fovea_kv& kv, Slot slot, int64_t head) {
  if (!kv.v_in_k) return vector_at(kv, kv.v, slot, head, kv.d_v);
  std::vector<double> x = k_vector(kv, slot, head);
  x.resize(static_cast<size_t>(kv.d_v));
  return x;
}

void write_vector(const fovea_kv& kv, const fovea_kv_side& side, Slot slot, int64_t head, const double* x,
                  int64_t dims) {
  const Encoded e = encode(grid_of(side.codec), rotation_of(dims), {x, x + dims});
  for (int plane = 0; plane < 2; ++plane) {
    std::memset(plane_row(kv, side, slot, head, plane, dims), 0,
                static_cast<size_t>(plane_bytes(side.codec, plane, dims)));
  }
  for (int64_t i = 0; i < dims; ++i) {
    for (int bit = 0; bit < bits_of(side.codec); ++bit) {
      const auto [plane, at] = place_of(side.codec, i, bit);
      if (e.codes[static_cast<size_t>(i)] >> bit & 1) {
        plane_row(kv, side, slot, head, plane, dims)[at / 8] |= std::byte{1} << at % 8;
      }
    }
  }
  encode(side.scale_dtype, kv_address(side.scale, slot, head), e.scale / kv.prescale);
}

}  // namespace fovea::oracle
