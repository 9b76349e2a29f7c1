// SPDX-License-Identifier: Apache-2.0
#include "oracle/kv64.h"

#include <cstring>
#include <stdexcept>

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

}  // namespace fovea::oracle
