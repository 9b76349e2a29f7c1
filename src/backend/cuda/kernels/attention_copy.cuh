// SPDX-License-Identifier: Apache-2.0
// attention: rows of K, V and Q on their way from global to shared memory.
//
// Rows lie 16 bytes further apart than they are long: an odd number of 16-byte chunks, so that the eight row addresses
// of a matrix fragment fall into different banks. 8-bit rows keep their bytes; fragments are widened when they are
// read. Dims past the last are zeros, so head dims need no padding in the caller's memory.
#pragma once

#include "backend/cuda/kernels/attention_move.cuh"
#include "backend/cuda/kernels/attention_work.cuh"
#include "backend/cuda/kernels/rows.cuh"

namespace fovea {

constexpr Dtype kKind = static_cast<Dtype>(config::kind);  // of the matrix products' operands
constexpr int kWarps = config::warps;
constexpr int kThreads = kWarps * 32;
constexpr int kMTiles = config::m_tiles;  // of 16 rows, in a warp
constexpr int kWarpRows = kMTiles * 16;
constexpr int kKeys = config::keys;  // of a step, in a warp
constexpr int kParts = config::q_parts;
// 0: one segment, every scale the same for all tokens, no softcap, ALiBi, packed bits or factors of rows.
constexpr bool kGeneral = config::general != 0;
constexpr bool kVInK = config::v_in_k != 0;
constexpr bool kK8 = config::k8 != 0, kV8 = config::v8 != 0;
constexpr bool kQ8 = config::q8 != 0;  // Q and K meet as bytes of e4m3
static_assert(!kQ8 || (kK8 && kParts == 1 && config::d_rope == 0));
// Rows of bf16 in memory, f16 in products: each with a power of two among the scales of tokens.
constexpr bool kNarrowK = config::k_narrow != 0, kNarrowV = config::v_narrow != 0;
static_assert(!(kNarrowK || kNarrowV) || (kGeneral && config::d_rope == 0 && kKind == Dtype::f16));
// Q may lie beyond f16: each row of it has a power of two of its own.
constexpr bool kFactors = kGeneral && config::q_factors != 0;

constexpr AttentionShape kShape = {.warps = kWarps,
                                   .m_tiles = kMTiles,
                                   .keys = kKeys,
                                   .stages = config::stages,
                                   .q_parts = kParts,
                                   .v_in_k = config::v_in_k,
                                   .q8 = config::q8,
                                   .k8 = config::k8,
                                   .v8 = config::v8,
                                   .d_main = config::d_main,
                                   .d_rope = config::d_rope,
                                   .d_v = config::d_v,
                                   .decode = config::decode};

template <int dims, bool narrow>
struct SharedRows {
  static constexpr int kDims = dims;
  static constexpr int kBytes = dims * (narrow ? 1 : 2);
  static constexpr int kChunks = kBytes / 16;
  static constexpr int kStride = kBytes + 16;
  static_assert(kBytes % 32 == 0);
};
using QRows = SharedRows<config::d_main + config::d_rope, kQ8>;
using KRows = SharedRows<config::d_main, kK8>;
using RopeRows = SharedRows<config::d_rope, false>;
using VRows = SharedRows<config::d_v, kV8>;
constexpr int kVStride = kVInK ? KRows::kStride : VRows::kStride;

// Keys of one step in shared memory. `owned` keys belong to each of the warps that copy.
template <int keys, int copying_warps>
struct KeyStage {
  static constexpr int kKeys = keys;
  static constexpr int kOwned = keys / copying_warps;  // per warp
  alignas(16) char k[keys * KRows::kStride];
  alignas(16) char rope[config::d_rope > 0 ? keys* RopeRows::kStride : 16];
  alignas(16) char v[kVInK ? 16 : keys * VRows::kStride];
  float scale[2][kGeneral ? keys : 1];            // of K and V, where each token has its own
  alignas(16) unsigned short bad[copying_warps];  // of each copying warp's keys, those whose page does not exist

  // Any, and as bits in the order of the keys.
  bool any_bad() const {
    if constexpr (copying_warps % 4 == 0) {
      u64_t any = 0;
#pragma unroll
      for (int i = 0; i < copying_warps; i += 4) any |= *reinterpret_cast<const u64_t*>(bad + i);
      return any != 0;
    }
    return bad_keys() != 0;
  }
  u64_t bad_keys() const {
    u64_t bits = 0;
#pragma unroll
    for (int i = 0; i < copying_warps; ++i) bits |= static_cast<u64_t>(bad[i]) << i * kOwned;
    return bits;
  }
};

using ptx::shared_address;
inline void store_u16(unsigned to, unsigned value) {
  *static_cast<u16_t*>(__cvta_shared_to_generic(to)) = static_cast<u16_t>(value);
}

// 16 bytes of a row, of which `bytes` (0 to 16) exist, where rows are not aligned to 16: `align` is what they are.
inline void copy_unaligned(unsigned to, const char* from, int bytes, int align) {
  if (align >= 4) {
#pragma unroll 1
    for (int i = 0; i < 16; i += 4) family::copy_4(to + i, from + i, min(max(bytes - i, 0), 4));
    return;
  }
#pragma unroll 1
  for (int i = 0; i < 16; i += 2) {
    unsigned value = 0;
    if (align == 2) {
      if (i < bytes) value = *reinterpret_cast<const u16_t*>(from + i);
    } else {
      if (i < bytes) value = static_cast<u8_t>(from[i]);
      if (i + 1 < bytes) value |= static_cast<unsigned>(static_cast<u8_t>(from[i + 1])) << 8;
    }
    store_u16(to + i, value);
  }
}

// The key that a lane looks after, of K in the first kOwned lanes and of V in the next; found one step before its copy
// begins, so that nothing waits for the page table.
struct LaneKey {
  u64_t address = 0;  // 0: no such key
  u64_t rope = 0;
  float scale = 0;
  bool bad = false;  // its page does not exist
};

template <class Stage>
inline LaneKey find_key(const KeySource& source, int first_key) {
  constexpr int kOwned = Stage::kOwned;
  const int lane = lane_id(), side = lane >= kOwned ? 1 : 0, t = first_key + lane - side * kOwned;
  LaneKey key;
  if (lane >= 2 * kOwned || t < source.lo || t >= source.hi) return key;
  const KeyPlace place = key_place(source, side, t);
  key.bad = place.page < 0;
  if (key.bad) return key;
  key.address = reinterpret_cast<u64_t>(source.base[side] + place.page * source.page_stride[side] +
                                        place.offset * source.token_stride[side]);
  if (config::d_rope > 0) {
    key.rope = reinterpret_cast<u64_t>(source.base[2] + place.page * source.page_stride[2] +
                                       place.offset * source.token_stride[2]);
  }
  key.scale = 1;
  if (kGeneral && source.scale[side] != nullptr) {
    key.scale = float_at(source.scale[side] + place.page * source.scale_page_stride[side] +
                             place.offset * source.scale_token_stride[side],
                         source.scale_dtype[side]);
  }
  return key;
}

// Starts copying `keys` rows to shared address `to`; lane first_lane + k has the address of row k, 0 for none. `bytes`
// of a row exist.
template <class Rows, int keys>
inline void copy_rows(unsigned to, u64_t address, int first_lane, int bytes, int align) {
  if (!family::kAsync) {
    move_rows<Rows, keys, false>(to, address, first_lane, bytes, align, 0, nullptr);
    return;
  }
  constexpr int kLanes = lanes_per_row(Rows::kChunks), kRows = 32 / kLanes;  // of one pass
  const int lane = lane_id(), row = lane / kLanes, chunk = lane % kLanes;
  to += row * Rows::kStride + chunk * 16;
  if (align >= 16 && bytes == Rows::kBytes) {
#pragma unroll
    for (int i = 0; i < keys; i += kRows) {
      const int owner = first_lane + (keys % kRows == 0 ? i + row : min(i + row, keys - 1));
      const u64_t begin = __shfl_sync(kAllLanes, address, owner);
      const u64_t from = begin + chunk * 16;
      const int exist = begin == 0 ? 0 : 16;
      if (keys % kRows != 0 && i + row >= keys) continue;
#pragma unroll
      for (int c = 0; c < Rows::kChunks; c += kLanes) {
        if (Rows::kChunks % kLanes != 0 && c + chunk >= Rows::kChunks) continue;
        family::copy_16(to + i * Rows::kStride + c * 16, reinterpret_cast<const char*>(from) + c * 16, exist);
      }
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < keys; i += kRows) {
    const u64_t from = __shfl_sync(kAllLanes, address, first_lane + min(i + row, keys - 1));
    if (i + row >= keys) continue;
#pragma unroll 1
    for (int c = chunk; c < Rows::kChunks; c += kLanes) {
      const int exist = from == 0 ? 0 : min(max(bytes - c * 16, 0), 16);
      const unsigned at = to + i * Rows::kStride + (c - chunk) * 16;
      const char* source = reinterpret_cast<const char*>(from) + c * 16;
      if (align >= 16) {
        family::copy_16(at, source, exist);
      } else {
        copy_unaligned(at, source, exist, align);
      }
    }
  }
}

// How many bytes of a row exist, and how it is aligned.
struct RowBytes {
  int k, rope, v;
  int k_align, rope_align, v_align;
};
// `v_dim`: the first of the part of V.
inline RowBytes row_bytes(const AttentionCudaArgs& g, int v_dim) {
  const KvSpec& kv = g.a.spec.kv[0];
  return {.k = (kv.d_k - kv.d_rope) * (kK8 ? 1 : 2),
          .rope = kv.d_rope * 2,
          .v = (kv.d_v - v_dim) * (kV8 ? 1 : 2),
          .k_align = g.k_align,
          .rope_align = g.rope_align,
          .v_align = g.v_align};
}

// Starts copying the keys that this warp owns into its part of a stage: keys `first` and following of it.
template <class Stage>
inline void copy_keys(Stage& stage, int owner, const LaneKey& key, const RowBytes& bytes, bool scaled, u32_t* status) {
  constexpr int kOwned = Stage::kOwned;
  const int first = owner * kOwned, lane = lane_id();
  const unsigned k = shared_address(stage.k) + first * KRows::kStride;
  if constexpr (kNarrowK) {
    move_rows<KRows, kOwned, true>(k, key.address, 0, bytes.k, bytes.k_align, key.scale, stage.scale[0] + first);
  } else {
    copy_rows<KRows, kOwned>(k, key.address, 0, bytes.k, bytes.k_align);
  }
  if constexpr (config::d_rope > 0) {
    copy_rows<RopeRows, kOwned>(shared_address(stage.rope) + first * RopeRows::kStride, key.rope, 0, bytes.rope,
                                bytes.rope_align);
  }
  if constexpr (!kVInK) {
    const unsigned v = shared_address(stage.v) + first * VRows::kStride;
    if constexpr (kNarrowV) {
      move_rows<VRows, kOwned, true>(v, key.address, kOwned, bytes.v, bytes.v_align, key.scale, stage.scale[1] + first);
    } else {
      copy_rows<VRows, kOwned>(v, key.address, kOwned, bytes.v, bytes.v_align);
    }
  }
  if constexpr (kNarrowK && kVInK) {
    __syncwarp();
    if (lane < kOwned) stage.scale[1][first + lane] = stage.scale[0][first + lane];
  }
  if (kGeneral && scaled && lane < 2 * kOwned && !(lane < kOwned ? kNarrowK : kNarrowV)) {
    stage.scale[lane / kOwned][first + lane % kOwned] = key.scale;
  }
  const unsigned bad = __ballot_sync(kAllLanes, key.bad);
  if (lane == 0) stage.bad[owner] = static_cast<unsigned short>((bad | bad >> kOwned) & ((1u << kOwned) - 1));
  if (bad != 0 && lane == 0) report_status(status, StatusCode::invalid_value);
}

// Position of dim `dim` in a row of Q: K fragments of 8-bit rows hold the dims of 16 in another order.
inline int q_position(int dim) {
  if (!kK8 || family::kQuadPairs || dim >= config::d_main) return dim;
  const int c = dim % 16 / 4, r = dim % 4;
  return dim / 16 * 16 + (r < 2 ? 2 * c + r : 8 + 2 * c + r - 2);
}

// Eight elements of a row, of which `count` (any number) exist.
inline void load_eight(float (&x)[8], const char* from, Dtype type, int count) {
  with_float_type(type, [&](auto t) {
    using Type = decltype(t);
    u32_t words[8];
    if (count >= 8) {
      fetch<Type, 8>(from, words);
      widen<Type, 8>(words, x);
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      x[i] = i < count ? Type::widen(reinterpret_cast<const typename Type::Raw*>(from)[i]) : 0.0f;
    }
  });
}

// The rows of Q of a block: shared [kParts][rows][QRows]. f32 becomes the sum of two 16-bit parts. `factor`, of each
// row: what its logits are to be multiplied with, a power of two that keeps large f32 rows inside f16.
inline void load_q(const AttentionCudaArgs& g, const AttentionRequest& r, RowBlock rows, int kv_head, int block_rows,
                   char* q, float* factor, bool& any_factor) {
  const AttentionArgs& a = g.a;
  const int group = a.spec.group, d_rope = a.spec.kv[0].d_rope, d_main = a.spec.kv[0].d_k - d_rope;
  const auto row_of = [&](int i) -> const char* {
    const int index = rows.first + i, token = index / group;
    if (i >= rows.count || token < r.active || token >= r.active + r.q_len) return nullptr;
    return element_address(a.q, r.batch_row * a.q.stride[0] + (r.first + token) * a.q.stride[1] +
                                    (kv_head * group + index - token * group) * a.q.stride[2]);
  };
  if constexpr (kQ8) {
    for (int i = static_cast<int>(threadIdx.x); i < block_rows * QRows::kChunks; i += kThreads) {
      const int n = i / QRows::kChunks, c = i % QRows::kChunks;
      const char* from = row_of(n);
      const unsigned to = shared_address(q) + n * QRows::kStride + c * 16;
      const int exist = from == nullptr ? 0 : min(max(d_main - c * 16, 0), 16);
      if (g.q_align >= 16) {
        family::copy_16(to, from + c * 16, exist);
      } else {
        copy_unaligned(to, from + c * 16, exist, g.q_align);
      }
    }
    return;
  }
  // Chunk c holds dims 8 c of K's main part, or of its rope part behind it.
  const auto chunk_dim = [&](int c) { return c * 8 < config::d_main ? c * 8 : d_main + c * 8 - config::d_main; };
  const auto chunk_count = [&](int c) {
    return c * 8 < config::d_main ? d_main - c * 8 : d_rope - (c * 8 - config::d_main);
  };
  if (kParts == 1 && !kK8 && a.spec.q == kKind && g.q_align >= 16) {
    for (int i = static_cast<int>(threadIdx.x); i < block_rows * QRows::kChunks; i += kThreads) {
      const int n = i / QRows::kChunks, c = i % QRows::kChunks;
      const char* from = row_of(n);
      family::copy_16(shared_address(q) + n * QRows::kStride + c * 16, from + chunk_dim(c) * 2,
                      from == nullptr ? 0 : min(max(chunk_count(c) * 2, 0), 16));
    }
    return;
  }
  const int bytes = a.q.block_bytes;
  if constexpr (kFactors) {
    for (int i = static_cast<int>(threadIdx.x); i < block_rows; i += kThreads) {
      const char* from = row_of(i);
      float largest = 0;
      for (int d = 0; from != nullptr && d < d_main + d_rope; ++d) {
        const float x = fabsf(float_at(from + static_cast<i64_t>(d) * bytes, a.spec.q));
        if (x <= 3.4e38f) largest = fmaxf(largest, x);
      }
      // 2^-e with largest * 2^-e below 2^15; small rows of bf16 need it as well.
      int e = static_cast<int>(bits_of_float(largest) >> 23) - 127 - 14;
      if (kParts == 2 || largest == 0) e = max(e, 0);
      if (e < 0 && e >= -15) e = 0;  // it is 1/2 at least: nothing that matters is lost
      e = max(e, -126);
      factor[i] = float_of_bits(static_cast<u32_t>(127 + e) << 23);
      if (e != 0) any_factor = true;
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < block_rows * QRows::kChunks; i += kThreads) {
    const int n = i / QRows::kChunks, c = i % QRows::kChunks;
    const char* from = row_of(n);
    float x[8];
    load_eight(x, from + static_cast<i64_t>(chunk_dim(c)) * bytes, a.spec.q, from == nullptr ? 0 : chunk_count(c));
    const float shrink = kFactors ? 1.0f / factor[n] : 1.0f;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const unsigned at = shared_address(q) + n * QRows::kStride + q_position(c * 8 + e) * 2;
      const float value = x[e] * shrink;
      const u16_t high = kKind == Dtype::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
      store_u16(at, high);
      if constexpr (kParts == 2) {
        const float rest = value - (kKind == Dtype::bf16 ? bf16_to_f32(high) : f16_to_f32(high));
        const bool finite = fabsf(value) <= 3.4e38f;
        const u16_t low = !finite ? 0 : kKind == Dtype::bf16 ? f32_to_bf16(rest) : f32_to_f16(rest);
        store_u16(at + block_rows * QRows::kStride, low);
      }
    }
  }
}

}  // namespace fovea
