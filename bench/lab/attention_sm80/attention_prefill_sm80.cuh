// SPDX-License-Identifier: Apache-2.0
// attention, many rows: FlashAttention-2 on mma.sync m16n8k16, SM80 on.
//
//   grid    x: row blocks of all sequences, y: kv heads        block: kWarps warps of kMTiles x 16 rows each
//   tile    kBlockRows rows x 64 keys, all dims
//   shared  Q [kBlockRows][kDk + 8] | 2 stages of { K [64][kDk + 8] | V [64][kDv + 8] }, 16-bit | row addresses |
//   BlockWork order   wait for tile t; start copying tile t + 1; find the addresses of tile t + 2; S = Q K^T; softmax;
//   O += P V
#pragma once

#include "attention_tile_sm80.cuh"

namespace fovea {

static_assert(kBlockRows == kWarps * kMTiles * 16 && kKeys == kTileKeys);

struct PrefillShared {
  alignas(128) char q[kBlockRows * KRows::kStride];
  struct Stage {
    alignas(16) char k[kTileKeys * KRows::kStride];
    alignas(16) char v[kTileKeys * VRows::kStride];
  } stage[2];
  const char* address[2][2][kTileKeys];  // tile % 2, K and V, key
  BlockWork work;
  int scratch[2][kWarps];
};

inline void load_q(const AttentionArgs& a, PrefillShared& shared) {
  const BlockWork& w = shared.work;
  for (int i = threadIdx.x; i < kBlockRows * KRows::kChunks; i += kThreads) {
    const int r = i / KRows::kChunks, chunk = i % KRows::kChunks, index = w.first_row + r;
    const bool inside = index < w.rows && chunk * 8 < kDk;
    const int group = a.spec.group;
    const char* from =
        inside ? row(a.q, w.request.batch_row, w.request.first + index / group, w.kv_head * group + index % group)
               : nullptr;
    ptx::copy_async_16(ptx::shared_address(shared.q) + r * KRows::kStride + chunk * 16, from + chunk * 16,
                       inside ? 16 : 0);
  }
}

inline void copy_tile(PrefillShared& shared, int tile) {
  PrefillShared::Stage& to = shared.stage[tile % 2];
  copy_rows<KRows, kDk, kTileKeys, kThreads>(ptx::shared_address(to.k), shared.address[tile % 2][0], threadIdx.x);
  copy_rows<VRows, kDv, kTileKeys, kThreads>(ptx::shared_address(to.v), shared.address[tile % 2][1], threadIdx.x);
  ptx::copy_async_commit();
}

inline void store_rows(const AttentionArgs& a, const BlockWork& w, Output& o, RowState& state, int first) {
  const int column = threadIdx.x % 4, group = a.spec.group;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = state.sum[i][h];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int index = w.first_row + first + i * 16 + h * 8;
      if (index >= w.rows) continue;
      const i64_t token = w.request.first + index / group;
      const int head = w.kv_head * group + index % group;
      if (a.lse.given() && column == 0) {
        *reinterpret_cast<float*>(row(a.lse, w.request.batch_row, token, head)) =
            sum > 0 ? __fmaf_rn(state.top[i][h], a.spec.scale, kLn2 * ptx::log2_approx(sum)) : minus_infinity();
      }
      const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
      char* out = row(a.out, w.request.batch_row, token, head);
#pragma unroll
      for (int j = 0; j < kOTiles; ++j) {
        const int dim = j * 8 + column * 2;
        if (dim < kDv)
          *reinterpret_cast<unsigned*>(out + dim * 2) = pack(o[i][j][2 * h] * inverse, o[i][j][2 * h + 1] * inverse);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_prefill_sm80(const __grid_constant__ AttentionArgs a) {
  extern __shared__ char shared_bytes[];
  PrefillShared& shared = *reinterpret_cast<PrefillShared*>(shared_bytes);
  BlockWork& w = shared.work;
  {
    i64_t b;
    int row_block;
    // Later rows see more keys under a causal mask: start with them.
    if (!find_block(a, gridDim.x - 1 - blockIdx.x, b, row_block)) return;
    if (threadIdx.x == 0) {
      w.request = attention_request(a, b);
      w.kv_head = blockIdx.y;
      w.first_row = row_block * kBlockRows;
      w.rows = static_cast<int>(w.request.tokens) * a.spec.group;
    }
    __syncthreads();
  }
  load_q(a, shared);
  ptx::copy_async_commit();

  Output o;
  RowState state;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kOTiles; ++j) o[i][j][0] = o[i][j][1] = o[i][j][2] = o[i][j][3] = 0;
    state.top[i][0] = state.top[i][1] = minus_infinity();
    state.sum[i][0] = state.sum[i][1] = 0;
  }
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * kMTiles * 16;
  const unsigned q = ptx::shared_address(shared.q) + warp_row * KRows::kStride + q_lane_offset(lane);
  const unsigned k = ptx::shared_address(shared.stage[0].k) + k_lane_offset(lane);
  const unsigned v = ptx::shared_address(shared.stage[0].v) + v_lane_offset(lane);
  const float to_log2 = a.spec.scale * kLog2e;

  for (int s = 0; s < a.spec.segments; ++s) {
    enter_segment(a, w, s, shared.scratch);
    const int tiles = (w.hi + kTileKeys - 1) / kTileKeys;
    if (w.lo >= w.hi) continue;
    for (int i = threadIdx.x; i < 4 * kTileKeys; i += kThreads) {
      const int tile = i / (2 * kTileKeys);
      shared.address[tile][i / kTileKeys % 2][i % kTileKeys] =
          key_address(w, i / kTileKeys % 2, tile * kTileKeys + i % kTileKeys);
    }
    __syncthreads();
    copy_tile(shared, 0);

#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      ptx::copy_async_wait<0>();
      __syncthreads();
      if (t + 1 < tiles) copy_tile(shared, t + 1);
      const int side = threadIdx.x / kTileKeys;
      const char* next = nullptr;
      if (side < 2 && t + 2 < tiles) next = key_address(w, side, (t + 2) * kTileKeys + threadIdx.x % kTileKeys);

      Scores scores;
      const unsigned stage = t % 2 * sizeof(PrefillShared::Stage);
      multiply_qk(scores, q, k + stage);
      const int key = t * kTileKeys;
      if (key < w.full_lo || key + kTileKeys > w.full_hi) {
        mask_scores(w, scores, warp_row + lane / 4, key + lane % 4 * 2);
      }
      softmax(scores, o, state, to_log2);
      multiply_pv(o, scores, v + stage);
      if (side < 2) shared.address[t % 2][side][threadIdx.x % kTileKeys] = next;
    }
    __syncthreads();
  }
  store_rows(a, w, o, state, warp_row + lane / 4);
}

}  // namespace fovea
