// SPDX-License-Identifier: Apache-2.0
// Logits of a tile to weights, and the running maximum and sum of each row: with rows in lanes, or with keys in lanes
// where rows are few. Both give the same bits. Included once per Highway target.
#if defined(FOVEA_CPU_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ATTENTION_SOFTMAX_INL_H_
#undef FOVEA_CPU_ATTENTION_SOFTMAX_INL_H_
#else
#define FOVEA_CPU_ATTENTION_SOFTMAX_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels/attention-block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// e^x for x <= 0 within 1 ulp, gradual underflow included; 0 for -inf, exactly 1 for 0, NaN for NaN.
HWY_INLINE F32Vec ExpOfNonPositive(F32Vec x) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  // Adding 1.5 * 2^23 rounds to an integer n and leaves it in the low bits.
  const F32Vec z = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), hn::Set(d, 0x1.8p23f));
  const F32Vec n = hn::Sub(z, hn::Set(d, 0x1.8p23f));
  // ln 2 in two parts; n times the first is exact.
  const F32Vec r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
  // Interpolation of (e^r - 1 - r) / r^2 at Chebyshev nodes.
  F32Vec p = hn::Set(d, 0x1.6d117cp-10f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.120be2p-7f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.555518p-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5554dcp-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  // 2^(n + 64), then 2^-64: the second product rounds into the subnormal range.
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(du, z), hn::Set(du, 127u + 64u)));
  const F32Vec y = hn::Mul(hn::Mul(p, hn::BitCast(d, power)), hn::Set(d, 0x1p-64f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -104.0f)), y);
}

// c tanh(x / c); the library's tanh may lose a NaN.
HWY_INLINE F32Vec Softcap(F32Vec x, float c) {
  const F32Tag d;
  const F32Vec cap = hn::Set(d, c);
  const F32Vec capped = hn::Mul(cap, hn::Tanh(d, hn::Div(x, cap)));
  return hn::IfThenElse(hn::IsNaN(x), x, capped);
}

// |p - j| for key j of the tile and row r.
inline float AlibiDistance(const Block& k, const Tile& tile, int j, int r) {
  const i64_t gap = k.position[r] - attention_key_position(k.args, k.task.request, tile.segment, tile.first + j);
  return static_cast<float>(gap < 0 ? -gap : gap);
}

// slope * |p - j| for the rows [at, at + lanes) and key j, or for row r and the keys [at, at + lanes).
F32Vec AlibiOfRows(const Block& k, const Tile& tile, int j, size_t at) {
  const F32Tag d;
  HWY_ALIGN float distance[hn::MaxLanes(d)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    const size_t r = at + i < static_cast<size_t>(k.task.rows) ? at + i : 0;
    distance[i] = AlibiDistance(k, tile, j, static_cast<int>(r));
  }
  return hn::Mul(hn::Load(d, k.slope + at), hn::Load(d, distance));
}
F32Vec AlibiOfKeys(const Block& k, const Tile& tile, int r, int at) {
  const F32Tag d;
  HWY_ALIGN float distance[hn::MaxLanes(d)];
  for (int i = 0; i < static_cast<int>(hn::Lanes(d)); ++i) distance[i] = AlibiDistance(k, tile, at + i, r);
  return hn::Mul(hn::Set(d, k.slope[r]), hn::Load(d, distance));
}

HWY_INLINE F32Vec Mask(const Tile& tile, int j, size_t at, F32Vec x) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const auto bits = hn::Load(du, (j < 32 ? tile.low : tile.high) + at);
  const auto seen = hn::TestBit(bits, hn::Set(du, 1u << (j % 32)));
  return hn::IfThenElse(hn::RebindMask(d, seen), x, hn::Set(d, kNone));
}

// Has Transform something to do? Where not, the AMX kernel leaves logits as they come.
HWY_INLINE bool HasTransform(const AttentionSpec& spec) {
  return spec.softcap > 0;
}

// A logit before ALiBi and the mask.
HWY_INLINE F32Vec Transform(const AttentionSpec& spec, F32Vec x) {
  if (spec.softcap > 0) x = Softcap(x, spec.softcap);
  return x;
}

// The sum of a tile's weights is that of kPartialSums chains, of every so-manieth key each, added by halves: an order
// that both forms keep, whatever lies in lanes.
constexpr size_t kPartialSums = 16;
template <class T, class Add>
HWY_INLINE T SumOfParts(T* part, const Add& add) {
  for (size_t half = kPartialSums / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) part[i] = add(part[i], part[i + half]);
  }
  return part[0];
}

// Turns x into weights times the scale of V, for the rows [at, at + lanes), and takes them into the state.
void SoftmaxOfRows(Block& k, const Tile& tile, size_t at, State& state) {
  const F32Tag d;
  const AttentionSpec& spec = k.args.spec;
  const F32Vec before = hn::Load(d, state.top + at);
  F32Vec top = before;
  for (int j = tile.begin; j < tile.end; ++j) {
    float* p = k.x + static_cast<size_t>(j) * k.stride + at;
    F32Vec x = Transform(spec, hn::Mul(hn::Load(d, p), hn::Set(d, tile.key_scale[j])));
    if (spec.alibi_rank > 0) x = hn::Sub(x, AlibiOfRows(k, tile, j, at));
    if (!tile.uniform) x = Mask(tile, j, at, x);
    hn::Store(x, d, p);
    top = hn::Max(x, top);
  }
  // Where nothing was seen yet, weights are e^(-inf - 0).
  const F32Vec none = hn::Set(d, kNone);
  const F32Vec base = hn::IfThenZeroElse(hn::Eq(top, none), top);
  const F32Vec decay = ExpOfNonPositive(hn::Sub(before, base));
  F32Vec part[kPartialSums];
  for (F32Vec& p : part) p = hn::Zero(d);
  for (int j = tile.begin; j < tile.end; ++j) {
    float* p = k.x + static_cast<size_t>(j) * k.stride + at;
    const F32Vec w = ExpOfNonPositive(hn::Sub(hn::Load(d, p), base));
    F32Vec& sum = part[static_cast<size_t>(j) % kPartialSums];
    sum = hn::Add(sum, w);
    hn::Store(hn::Mul(w, hn::Set(d, tile.value_scale[j])), d, p);
  }
  const F32Vec sum = SumOfParts(part, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Add(a, b); });
  hn::Store(hn::MulAdd(hn::Load(d, state.sum + at), decay, sum), d, state.sum + at);
  hn::Store(top, d, state.top + at);
  hn::Store(decay, d, k.decay + at);
}

// The same for one row of a block by keys: whole vectors of keys, of which unseen ones are masked.
void SoftmaxOfKeys(Block& k, const Tile& tile, int r, State& state) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const AttentionSpec& spec = k.args.spec;
  const int n = static_cast<int>(hn::Lanes(d));
  const F32Vec none = hn::Set(d, kNone);
  HWY_ALIGN float lanes[kPartialSums] = {};
  float* row = k.x + static_cast<ptrdiff_t>(r) * kTileKeys;
  F32Vec most = none;
  for (int j = tile.begin / n * n; j < tile.end; j += n) {
    F32Vec x = Transform(spec, hn::Mul(hn::Load(d, row + j), hn::Load(d, tile.key_scale + j)));
    if (spec.alibi_rank > 0) x = hn::Sub(x, AlibiOfKeys(k, tile, r, j));
    const auto bits = hn::Set(du, static_cast<uint32_t>(tile.seen[r] >> j));
    const auto seen = hn::TestBit(bits, hn::Shl(hn::Set(du, 1u), hn::Iota(du, 0)));
    x = hn::IfThenElse(hn::RebindMask(d, seen), x, none);
    hn::Store(x, d, row + j);
    most = hn::Max(x, most);
  }
  const float before = state.top[r];
  const float top = hn::GetLane(hn::Max(hn::MaxOfLanes(d, most), hn::Set(d, before)));
  const F32Vec base = hn::Set(d, top == kNone ? 0 : top);
  const F32Vec decay = ExpOfNonPositive(hn::Sub(hn::Set(d, before), base));
  for (int j = tile.begin / n * n; j < tile.end; j += n) {
    const F32Vec w = ExpOfNonPositive(hn::Sub(hn::Load(d, row + j), base));
    float* part = lanes + static_cast<size_t>(j) % kPartialSums;
    hn::Store(hn::Add(hn::Load(d, part), w), d, part);
    hn::Store(hn::Mul(w, hn::Load(d, tile.value_scale + j)), d, row + j);
  }
  const float sum = SumOfParts(lanes, [](float a, float b) { return a + b; });
  state.sum[r] = hn::GetLane(hn::MulAdd(hn::Set(d, state.sum[r]), decay, hn::Set(d, sum)));
  state.top[r] = top;
  k.decay[r] = hn::GetLane(decay);
}

void TileSoftmax(Block& k, const Tile& tile, State& state) {
  if (k.by_keys) {
    for (int r = 0; r < k.task.rows; ++r) SoftmaxOfKeys(k, tile, r, state);
  } else {
    for (size_t at = 0; at < k.stride; at += hn::Lanes(F32Tag())) SoftmaxOfRows(k, tile, at, state);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
