// SPDX-License-Identifier: Apache-2.0
// Token by token: norm, rotate, round, encode, write. A vector is a row of f32 that stays in the first cache level.
//
//   x = x / sqrt(mean(x^2) + eps) * (w + offset)    over the d - d_rope dims before the k_rope part
//   x = rotate(x)                                   rope-inl.h, in the k_rope part where there is one
//   x = round(x)                                    K: to its own type where that has 16 bits
//   stored = x / s                                  s given per tensor or head; or computed: max|x| / 448
//   codes, s = encode(H D x)                        grids: grid-inl.h
//
// Q takes the first two steps. Divisions are correctly rounded and nothing is contracted: from a given x the stored
// bytes are the same on every instruction set.
#include "backend/cpu/kernels/kv_append.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/kv_append.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/grid-inl.h"
#include "backend/cpu/kernels/lanes-inl.h"
#include "backend/cpu/kernels/rope-inl.h"
#include "backend/cpu/kernels/rows-inl.h"
#include "shared/kv/scale.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// The same steps and bits as `norm` of kind rms.
void RmsNorm(const View& weight, float eps, float offset, float* x, i64_t n) {
  const F32Tag d;
  F32Vec squares = hn::Zero(d);
  ForLanes(n, [&](i64_t i, size_t count) {
    const F32Vec v = Lanes(Dtype::f32, reinterpret_cast<const char*>(x), i, count);
    squares = hn::MulAdd(v, v, squares);
  });
  const F32Vec power = hn::Div(hn::SumOfLanes(d, squares), hn::Set(d, static_cast<float>(n)));
  const F32Vec inverse = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(power, hn::Set(d, eps))));
  ForLanes(n, [&](i64_t i, size_t count) {
    const F32Vec v = Lanes(Dtype::f32, reinterpret_cast<const char*>(x), i, count);
    const F32Vec w = Lanes(weight.dtype, static_cast<const char*>(weight.data), i, count);
    const F32Vec y = hn::Mul(hn::Mul(v, inverse), hn::Add(w, hn::Set(d, offset)));
    PutLanes(Dtype::f32, y, reinterpret_cast<char*>(x), i, count);
  });
}

// The bits of max|x|: as integers, Inf and NaN are above every number.
u32_t LargestMagnitude(const float* x, i64_t n) {
  const hn::RebindToSigned<F32Tag> di;
  hn::Vec<decltype(di)> most = hn::Zero(di);
  ForLanes(n, [&](i64_t i, size_t count) {
    most = hn::Max(most, hn::BitCast(di, hn::Abs(Lanes(Dtype::f32, reinterpret_cast<const char*>(x), i, count))));
  });
  return static_cast<u32_t>(hn::GetLane(hn::MaxOfLanes(di, most)));
}

// stored = x / scale; a scale of 0 stores zeros.
void EncodeRow(Dtype type, const float* x, float scale, char* to, i64_t n) {
  if (scale == 0) {
    __builtin_memset(to, 0, static_cast<size_t>(n * dtype_block_bytes(type)));
    return;
  }
  const F32Tag d;
  const F32Vec divisor = hn::Set(d, scale);
  ForLanes(n, [&](i64_t i, size_t count) {
    PutLanes(type, hn::Div(Lanes(Dtype::f32, reinterpret_cast<const char*>(x), i, count), divisor), to, i, count);
  });
}

// Returns the scale that was stored.
float StoreScale(Dtype type, float most, char* to) {
  float value = 0;
  const u32_t bits = computed_scale(type, most, value);
  __builtin_memcpy(to, &bits, static_cast<size_t>(dtype_block_bytes(type)));  // little-endian
  return value;
}

void StoreZeroScale(Dtype type, char* to) {
  __builtin_memset(to, 0, static_cast<size_t>(dtype_block_bytes(type)));
}

// One scaled unit (a vector, or a group of dims) with a scale of its own. Returns 1 where it held NaN or Inf.
i64_t EncodeUnit(const KvSideSpec& side, const float* x, i64_t n, char* scale_at, char* to) {
  const u32_t most = LargestMagnitude(x, n);
  const bool finite = most < 0x7F800000u;
  if (most == 0 || !finite) {
    StoreZeroScale(side.scale_dtype, scale_at);
    EncodeRow(codec_dtype(side.codec), x, 0, to, n);
    return !finite;
  }
  const float scale = StoreScale(side.scale_dtype, float_of_bits(most), scale_at);
  EncodeRow(codec_dtype(side.codec), x, scale, to, n);
  return 0;
}

struct Side {
  const KvSpec& kv;
  const KvSideSpec& spec;
  const KvStream& data;
  const KvStream& scale;
};

i64_t EncodeOnGrid(const Side& side, KvSlot slot, i64_t head, const float* x, int n) {
  const Grid grid = codec_grid(side.spec.codec);
  alignas(64) float y[kMostRotatedDim];
  alignas(64) u8_t codes[kMostRotatedDim];
  __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
  RotateVector(*find_rotation(n), y);
  bool finite = true;
  const float scale = EncodeVector(grid, y, n, codes, finite);
  PlaneRows rows{{reinterpret_cast<u8_t*>(kv_address(side.data, slot, head)), nullptr}};
  if (kv_row_bytes(side.spec, n, 1) > 0) {
    const KvStream second = kv_second_plane(side.kv, side.spec, side.data, n);
    rows.plane[1] = reinterpret_cast<u8_t*>(kv_address(second, slot, head));
  }
  PackCodes(grid, codes, n, rows);
  char* to = kv_address(side.scale, slot, head);
  if (side.spec.scale_dtype == Dtype::f16) {
    const u16_t bits = stored_scale(scale, side.kv.prescale);
    __builtin_memcpy(to, &bits, sizeof bits);
  } else {
    const float stored = stored_scale_f32(scale, side.kv.prescale);
    __builtin_memcpy(to, &stored, sizeof stored);
  }
  return !finite;
}

i64_t StoreVector(const Side& side, KvSlot slot, i64_t head, const float* x, i64_t n) {
  if (codec_is_grid(side.spec.codec)) return EncodeOnGrid(side, slot, head, x, static_cast<int>(n));
  const Dtype type = codec_dtype(side.spec.codec);
  char* to = kv_address(side.data, slot, head);
  switch (side.spec.scale_kind) {
    case ScaleKind::none:
      StoreRow(type, x, to, n);
      return 0;
    case ScaleKind::token_head:
      return EncodeUnit(side.spec, x, n, kv_address(side.scale, slot, head), to);
    case ScaleKind::group: {
      const i64_t group = side.spec.scale_group, scale_bytes = dtype_block_bytes(side.spec.scale_dtype);
      char* scale_at = kv_address(side.scale, slot, head);
      i64_t bad = 0;
      for (i64_t i = 0; i < n; i += group, scale_at += scale_bytes) {
        bad += EncodeUnit(side.spec, x + i, n - i < group ? n - i : group, scale_at, to + i * dtype_block_bytes(type));
      }
      return bad;
    }
    default:
      EncodeRow(type, x, kv_scale(side.spec, side.scale, slot, head), to, n);
      return 0;
  }
}

// To the type's 16 bits and back.
void RoundRow(Dtype type, float* x, i64_t n) {
  if (type == Dtype::f32) return;
  char narrow[kMaxAppendDim * 2];
  StoreRow(type, x, narrow, n);
  LoadRow(type, narrow, x, n);
}

// Norm and rotation of one head of K or Q.
void Prepare(const KvAppendArgs& a, const View& weight, const TokenAngles& angles, float* x, i64_t d) {
  const i64_t rope_part = a.spec.kv.d_rope;
  if (weight.given()) RmsNorm(weight, a.norm_eps, a.norm_weight_offset, x, d - rope_part);
  if (a.spec.rotary.rotary_dim) Rotate(a.spec.rotary, angles, x + (rope_part ? d - rope_part : 0));
}

i64_t AppendK(const KvAppendArgs& a, const TokenAngles& angles, i64_t token, KvSlot slot) {
  const KvSpec& kv = a.spec.kv;
  const Side side{kv, kv.k, a.kv.k, a.kv.k_scale};
  const i64_t n = kv.d_k - kv.d_rope;
  const bool changed = a.k_norm_weight.given() || a.spec.rotary.rotary_dim;
  const bool raw = !changed && kv.k.scale_kind == ScaleKind::none;
  float x[kMaxAppendDim];
  i64_t bad = 0;
  for (i64_t h = 0; h < kv.heads; ++h) {
    const char* from = row(a.k, token, h);
    if (raw) {
      ConvertRow(a.k.dtype, from, codec_dtype(kv.k.codec), kv_address(side.data, slot, h), n);
      from += n * dtype_block_bytes(a.k.dtype);
      if (kv.d_rope) ConvertRow(a.k.dtype, from, kv.rope_dtype, kv_address(a.kv.k_rope, slot, h), kv.d_rope);
      continue;
    }
    LoadRow(a.k.dtype, from, x, kv.d_k);
    Prepare(a, a.k_norm_weight, angles, x, kv.d_k);
    if (changed) RoundRow(a.k.dtype, x, kv.d_k);
    bad += StoreVector(side, slot, h, x, n);
    if (kv.d_rope) StoreRow(kv.rope_dtype, x + n, kv_address(a.kv.k_rope, slot, h), kv.d_rope);
  }
  return bad;
}

i64_t AppendV(const KvAppendArgs& a, i64_t token, KvSlot slot) {
  const KvSpec& kv = a.spec.kv;
  const Side side{kv, kv.v, a.kv.v, a.kv.v_scale};
  float x[kMaxAppendDim];
  i64_t bad = 0;
  for (i64_t h = 0; h < kv.heads; ++h) {
    const char* from = row(a.v, token, h);
    if (kv.v.scale_kind == ScaleKind::none) {
      ConvertRow(a.v.dtype, from, codec_dtype(kv.v.codec), kv_address(side.data, slot, h), kv.d_v);
      continue;
    }
    LoadRow(a.v.dtype, from, x, kv.d_v);
    bad += StoreVector(side, slot, h, x, kv.d_v);
  }
  return bad;
}

void PrepareQ(const KvAppendArgs& a, const TokenAngles& angles, i64_t token) {
  float x[kMaxAppendDim];
  for (i64_t h = 0; h < a.spec.q_heads; ++h) {
    LoadRow(a.q.dtype, row(a.q, token, h), x, a.spec.d_q);
    Prepare(a, a.q_norm_weight, angles, x, a.spec.d_q);
    StoreRow(a.q_out.dtype, x, row(a.q_out, token, h), a.spec.d_q);
  }
}

i64_t AppendTokens(const KvAppendArgs& a, const RotaryTable& table, i64_t first, i64_t last) {
  TokenAngles angles;
  i64_t bad = 0;
  for (i64_t t = first; t < last; ++t) {
    KvSlot slot;
    const bool stored = append_slot(a, t, slot);
    if (!stored && !a.q.given()) continue;
    if (a.spec.rotary.rotary_dim) TokenRotation(a.spec.rotary, table, a.rotary, t, angles);
    if (stored) bad += AppendK(a, angles, t, slot);
    if (stored && !a.spec.kv.v_in_k) bad += AppendV(a, t, slot);
    if (a.q.given()) PrepareQ(a, angles, t);
  }
  return bad;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(AppendTokens);

i64_t append_tokens(const Isa& isa, const KvAppendArgs& args, const RotaryTable& table, i64_t first, i64_t last) {
  return FOVEA_CPU_KERNEL(isa, AppendTokens)(args, table, first, last);
}

}  // namespace fovea::cpu
#endif
