// SPDX-License-Identifier: Apache-2.0
// Rotation by position: cos and sin once per token (rope-inl.h), then each head through a row of f32.
#include "backend/cpu/kernels/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/rope.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/rope-inl.h"
#include "backend/cpu/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

void RopeTokens(const RopeArgs& a, const RotaryTable& table, i64_t first, i64_t last) {
  const RotarySpec& rotary = a.spec.rotary;
  const i64_t n = rotary.rotary_dim, tail = a.spec.d - n;
  const i64_t x_bytes = n * dtype_block_bytes(a.x.dtype), out_bytes = n * dtype_block_bytes(a.out.dtype);
  TokenAngles angles;
  float head[kMaxRotaryDim];
  for (i64_t t = first; t < last; ++t) {
    TokenRotation(rotary, table, a.rotary, t, angles);
    for (i64_t h = 0; h < a.spec.heads; ++h) {
      const char* x = row(a.x, t, h);
      char* out = row(a.out, t, h);
      LoadRow(a.x.dtype, x, head, n);
      Rotate(rotary, angles, head);
      StoreRow(a.out.dtype, head, out, n);
      ConvertRow(a.x.dtype, x + x_bytes, a.out.dtype, out + out_bytes, tail);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(RopeTokens);

void rope_tokens(const Isa& isa, const RopeArgs& args, const RotaryTable& table, i64_t first, i64_t last) {
  FOVEA_CPU_KERNEL(isa, RopeTokens)(args, table, first, last);
}

}  // namespace fovea::cpu
#endif
