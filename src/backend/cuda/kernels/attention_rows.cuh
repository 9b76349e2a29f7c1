// SPDX-License-Identifier: Apache-2.0
// attention: the end of a row, and its way to the caller's tensors.
#pragma once

#include "backend/cuda/kernels/attention_work.cuh"
#include "backend/cuda/kernels/ptx/special.cuh"
#include "backend/cuda/kernels/rows.cuh"

namespace fovea {

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

struct Cursor {  // where row `index` of a sequence and kv head belongs
  i64_t token;   // of the view
  int head;
  bool in_use;
};
inline Cursor cursor_of(const AttentionCudaArgs& g, const AttentionRequest& r, int kv_head, int index) {
  const int group = g.start.group.divisor, token = divide(index, g.start.group);
  return {r.first + token, kv_head * group + index - token * group, token >= r.active && token < r.active + r.q_len};
}

// Factor that takes a row's summed output to its result, and its log-sum-exp. `top` in powers of two.
struct RowEnd {
  float factor;
  float lse;
};
inline RowEnd end_row(const AttentionArgs& a, const Cursor& at, float top, float sum) {
  if (!a.sinks.given() || !at.in_use) {
    if (sum == 0) return {0, minus_infinity()};
    return {1.0f / sum, kLn2 * (top + ptx::log2_approx(sum))};
  }
  const float sink = load<float>(row(a.sinks, at.head));
  if (sum == 0) return {0, sink};
  const float own = sink * kLog2e, common = fmaxf(top, own);
  const float all = __fmaf_rn(sum, ptx::exp2_approx(top - common), ptx::exp2_approx(own - common));
  return {ptx::exp2_approx(top - common) / all, kLn2 * (common + ptx::log2_approx(all))};
}

// Elements [dim, dim + 4) of a row of `out`, those below `dims`.
inline void store_four(const AttentionArgs& a, char* out, int dim, int dims, float4 x) {
  const Dtype type = a.spec.out;
  if (type == Dtype::bf16 || type == Dtype::f16) {
    const bool bf16 = type == Dtype::bf16;
    const uint2 packed = bf16 ? uint2{family::pack<Dtype::bf16>(x.x, x.y), family::pack<Dtype::bf16>(x.z, x.w)}
                              : uint2{family::pack<Dtype::f16>(x.x, x.y), family::pack<Dtype::f16>(x.z, x.w)};
    u16_t* to = reinterpret_cast<u16_t*>(out) + dim;
    if (dim + 4 <= dims && is_aligned(to, 8)) {
      *reinterpret_cast<uint2*>(to) = packed;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (dim + i < dims) to[i] = static_cast<u16_t>((i < 2 ? packed.x : packed.y) >> i % 2 * 16);
    }
    return;
  }
  if (type == Dtype::f32 && dim + 4 <= dims && is_aligned(out + dim * 4, 16)) {
    *reinterpret_cast<float4*>(out + dim * 4) = x;
    return;
  }
  const float values[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (dim + i >= dims) continue;
    if (type == Dtype::f32) {
      reinterpret_cast<float*>(out)[dim + i] = values[i];
    } else {
      out[dim + i] = static_cast<char>(f32_to_e4m3(__fdiv_rn(values[i], a.spec.out_scale)));
    }
  }
}

inline char* out_row(const AttentionArgs& a, const AttentionRequest& r, const Cursor& at) {
  return element_address(a.out, r.batch_row * a.out.stride[0] + at.token * a.out.stride[1] + at.head * a.out.stride[2]);
}
inline void store_lse(const AttentionArgs& a, const AttentionRequest& r, const Cursor& at, float lse) {
  if (!a.lse.given()) return;
  const i64_t offset = r.batch_row * a.lse.stride[0] + at.token * a.lse.stride[1] + at.head * a.lse.stride[2];
  *reinterpret_cast<float*>(element_address(a.lse, offset)) = lse;
}

}  // namespace fovea
