// SPDX-License-Identifier: Apache-2.0
// Super-blocks of 256 weights: each part of 16 or 32 weights has its own scale (and offset), a small whole number times
// one f16 of the block. Included once per Highway target.
//
// First every part takes the scale it would have alone, and the block's f16 those under which its parts come nearest to
// that. Then, in turn: every part tries the sixteen scales (pairs of scale and offset) around its own, with the codes
// nearest under each, and the block takes the f16 that are best for these codes.
#if defined(FOVEA_CPU_QUANTIZE_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_QUANTIZE_K_INL_H_
#undef FOVEA_CPU_QUANTIZE_K_INL_H_
#else
#define FOVEA_CPU_QUANTIZE_K_INL_H_
#endif

#include "backend/cpu/kernels/quantize-blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr int kSuperBlock = 256;

inline int Clamped(int x, int low, int high) {
  return x < low ? low : x > high ? high : x;
}

// ---- books: of the codes of a part, and of the scales of parts ----

struct PartSigned3 : Whole<-4, 3> {
  static constexpr int passes = 2;
  static constexpr float targets[kCandidates] = {-5.25f, -5, -4.75f, -4.5f, -4.25f, -4,    -3.75f, -3.5f,
                                                 -3.25f, -3, 2.5f,   2.75f, 3,      3.25f, 3.5f,   3.75f};
};
struct PartSigned6 : Whole<-32, 31> {
  static constexpr int passes = 1;
  static constexpr float targets[kCandidates] = {-33,     -32.67f, -32.33f, -32,    -31.67f, -31.33f, -31,    -30.67f,
                                                 -30.33f, -30,     30.33f,  30.67f, 31,      31.33f,  31.67f, 32};
};
struct PartSteps3 {
  static constexpr int top = 3, batches = 1, passes = 2;
  static constexpr float cuts[] = {2.5f, 2.5f, 3, 3.25f, 3.25f, 3.5f, 3.5f, 3.5f, 4, 4, 4, 4.5f, 4.5f, 4.5f, 5, 5};
  static constexpr float anchors[] = {0, 1, 0, 0, 1, 0, 0.5f, 1, 0, 0.5f, 1, 0, 0.5f, 1, 0.25f, 0.75f};
};
struct ScalesSigned6 : Whole<-32, 31> {
  static constexpr int passes = 2;
  static constexpr const float (&targets)[kCandidates] = PartSigned6::targets;
};
struct ScalesSigned8 : Signed8 {};
struct ScalesOf4 : Whole<0, 15> {
  static constexpr int passes = 2;
  static constexpr float targets[kCandidates] = {12.5f,  13, 13.25f, 13.5f, 13.75f, 14, 14.25f, 14.5f,
                                                 14.75f, 15, 15.25f, 15.5f, 15.75f, 16, 16.5f,  17};
};
struct ScalesOf6 : Whole<0, 63> {
  static constexpr int passes = 2;
  static constexpr float targets[kCandidates] = {61,    61.25f, 61.5f, 61.75f, 62,    62.2f, 62.4f, 62.6f,
                                                 62.8f, 63,     63.2f, 63.4f,  63.6f, 63.8f, 64,    64.5f};
};

// ---- scales alone: x ~ d s q; sixteen parts of sixteen weights ----

struct Scales {
  float d = 0;
  int s[16] = {};
};

// Part: book of the codes; Level: book of the scales s.
template <class Part, class Level>
inline Scales FitScales(const float* x) {
  constexpr int n = 16;
  float alone[16], weights[16];
  for (int j = 0; j < 16; ++j) {
    const ScaleFit fit = FitScale<Part, AsF32>(x + j * n, n);
    alone[j] = fit.d;
    weights[j] = fit.qq;
  }
  Scales now = {.d = FitScale<Level, AsF16, true>(alone, 16, weights).d}, best;
  if (now.d == 0) return best;
  for (int j = 0; j < 16; ++j)
    now.s[j] = Clamped(static_cast<int>(__builtin_rintf(alone[j] / now.d)), Level::low, Level::high);
  float least = __builtin_huge_valf();
  for (int round = 0; round < 3; ++round) {
    float error = 0, xq = 0, qq = 0;
    for (int j = 0; j < 16; ++j) {
      float scales[kCandidates];
      const float offsets[kCandidates] = {};
      int tried[kCandidates];
      for (int c = 0; c < kCandidates; ++c) {
        tried[c] = Clamped(now.s[j] + c - kCandidates / 2, Level::low, Level::high);
        scales[c] = now.d * static_cast<float>(tried[c]);
      }
      const Choice fit = BestOf<Part>(x + j * n, n, scales, offsets);
      now.s[j] = tried[fit.index];
      const auto s = static_cast<float>(now.s[j]);
      error += fit.error;
      xq += s * fit.xq;
      qq += s * s * fit.qq;
    }
    if (error < least) {
      least = error;
      best = now;
    }
    const float d = qq > 0 ? f16_to_f32(f32_to_f16(xq / qq)) : 0.0f;
    if (d == now.d || d == 0) break;
    now.d = d;
  }
  return best;
}

// ---- scales and offsets: x ~ d s q - e o; `parts` parts ----

struct Lines {
  float d = 0, e = 0;
  int s[16] = {}, o[16] = {};
};

// Part: book of the codes; Level: book of s and o, which are not negative.
template <class Part, class Level, int parts>
inline Lines FitLines(const float* x) {
  constexpr int n = kSuperBlock / parts;
  float scales_alone[16] = {}, offsets_alone[16] = {};
  for (int j = 0; j < parts; ++j) {
    const LineFit fit = FitLine<Part, AsF32, true>(x + j * n, n);
    scales_alone[j] = fit.d;
    offsets_alone[j] = -fit.m;
  }
  Lines now = {.d = FitScale<Level, AsF16>(scales_alone, 16).d, .e = FitScale<Level, AsF16>(offsets_alone, 16).d}, best;
  const auto whole = [](float alone, float unit) {
    return unit > 0 ? Clamped(static_cast<int>(__builtin_rintf(alone / unit)), 0, Level::high) : 0;
  };
  float sum[16];
  for (int j = 0; j < parts; ++j) {
    now.s[j] = whole(scales_alone[j], now.d);
    now.o[j] = whole(offsets_alone[j], now.e);
    sum[j] = 0;
    for (int i = 0; i < n; ++i) sum[j] += x[j * n + i];
  }
  float least = __builtin_huge_valf();
  for (int round = 0; round < 3; ++round) {
    float error = 0, qq = 0, qo = 0, oo = 0, xq = 0, xo = 0;
    for (int j = 0; j < parts; ++j) {
      float scales[kCandidates], offsets[kCandidates];
      int s[kCandidates], o[kCandidates];
      for (int c = 0; c < kCandidates; ++c) {
        s[c] = Clamped(now.s[j] + (c == 15 ? 2 : c / 5 - 1), 0, Level::high);
        o[c] = Clamped(now.o[j] + (c == 15 ? 0 : c % 5 - 2), 0, Level::high);
        scales[c] = now.d * static_cast<float>(s[c]);
        offsets[c] = now.e * static_cast<float>(o[c]);
      }
      const Choice fit = BestOf<Whole<0, Part::top>>(x + j * n, n, scales, offsets);
      now.s[j] = s[fit.index];
      now.o[j] = o[fit.index];
      const auto sj = static_cast<float>(now.s[j]), oj = static_cast<float>(now.o[j]);
      error += fit.error;
      qq += sj * sj * fit.qq;
      qo += sj * oj * fit.q;
      oo += oj * oj * n;
      xq += sj * fit.xq;
      xo += oj * sum[j];
    }
    if (error < least) {
      least = error;
      best = now;
    }
    // The least of sum (x - d s q + e o)^2.
    const float determinant = qq * oo - qo * qo;
    float d = now.d, e = now.e;
    if (determinant > 0) {
      d = (xq * oo - qo * xo) / determinant;
      e = (qo * xq - qq * xo) / determinant;
    } else if (qq > 0) {
      d = (xq + now.e * qo) / qq;
    }
    d = f16_to_f32(f32_to_f16(d > 65504.0f ? 65504.0f : d));
    e = f16_to_f32(f32_to_f16(e > 65504.0f ? 65504.0f : e));
    if (!(d > 0) || !(e >= 0) || (d == now.d && e == now.e)) break;
    now.d = d;
    now.e = e;
  }
  return best;
}

// ---- types ----

// Code i of a plane of `bits`-bit codes; see plane_at. The plane is zeroed.
template <int bits>
inline void PutPlane(u8_t* plane, int i, int code) {
  constexpr int kStep = 256 / bits;
  plane[i / kStep * 32 + i % 32] |= static_cast<u8_t>(code << (i % kStep / 32 * bits));
}

inline void Clear(u8_t* block, int bytes) {
  for (int i = 0; i < bytes; ++i) block[i] = 0;
}

// Scales of the parts, and codes from 0 on.
template <class Block, class Part, class Level>
inline Scales EncodeScales(const float* x, u8_t* block, int zero, u8_t* codes) {
  const Scales best = FitScales<Part, Level>(x);
  for (int j = 0; j < 16; ++j)
    CodesOf<Part>(x + j * 16, 16, best.d * static_cast<float>(best.s[j]), zero, codes + j * 16);
  Clear(block, Block::kBytes);
  PutF16(best.d, block + Block::kScaleAt);
  return best;
}

inline void EncodeBlock(Q3_K, const float* x, u8_t* block) {
  u8_t codes[kSuperBlock];
  const Scales best = EncodeScales<Q3_K, PartSigned3, ScalesSigned6>(x, block, 4, codes);
  for (int j = 0; j < 16; ++j) {
    const int s = best.s[j] + Q3_K::kScaleZero;
    block[Q3_K::kScalesAt + j % 8] |= static_cast<u8_t>((s & 15) << (j / 8 * 4));
    block[Q3_K::kScalesAt + 8 + j % 4] |= static_cast<u8_t>(s >> 4 << (j / 4 * 2));
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    PutPlane<2>(block + Q3_K::kCodesAt, i, codes[i] & 3);
    PutPlane<1>(block + Q3_K::kHighBitsAt, i, codes[i] >> 2);
  }
}

inline void EncodeBlock(Q6_K, const float* x, u8_t* block) {
  u8_t codes[kSuperBlock];
  const Scales best = EncodeScales<Q6_K, PartSigned6, ScalesSigned8>(x, block, Q6_K::kZero, codes);
  for (int j = 0; j < 16; ++j) block[Q6_K::kScalesAt + j] = static_cast<u8_t>(best.s[j]);
  for (int i = 0; i < kSuperBlock; ++i) {
    block[Q6_K::kCodesAt + i / 128 * 64 + i % 64] |= static_cast<u8_t>((codes[i] & 15) << (i % 128 / 64 * 4));
    PutPlane<2>(block + Q6_K::kHighBitsAt, i, codes[i] >> 4);
  }
}

// Offsets lower weights, so that parts above 0 would waste codes: where the weights lean that way, the block is made of
// their negatives, under an f16 of the other sign.
template <class Block, class Part, class Level>
inline Lines EncodeLines(const float* x, u8_t* block, u8_t* codes) {
  constexpr int n = Block::kGroup, parts = kSuperBlock / n;
  float above = 0, below = 0, flipped[kSuperBlock];
  for (int j = 0; j < parts; ++j) {
    const Range range = RangeOf(x + j * n, n);
    above += range.low > 0 ? range.low : 0;
    below += range.high < 0 ? -range.high : 0;
  }
  const float sign = above > below ? -1.0f : 1.0f;
  for (int i = 0; i < kSuperBlock; ++i) flipped[i] = sign * x[i];
  const Lines best = FitLines<Part, Level, parts>(flipped);
  for (int j = 0; j < parts; ++j) {
    const LineFit line = {best.d * static_cast<float>(best.s[j]), -best.e * static_cast<float>(best.o[j])};
    LineCodesOf(flipped + j * n, n, line, Part::top, codes + j * n);
  }
  Clear(block, Block::kBytes);
  PutF16(sign * best.d, block + Block::kScaleAt);
  PutF16(sign * best.e, block + Block::kMinimumAt);
  return best;
}

inline void EncodeBlock(Q2_K, const float* x, u8_t* block) {
  u8_t codes[kSuperBlock];
  const Lines best = EncodeLines<Q2_K, PartSteps3, ScalesOf4>(x, block, codes);
  for (int j = 0; j < 16; ++j) block[Q2_K::kScalesAt + j] = static_cast<u8_t>(best.s[j] | best.o[j] << 4);
  for (int i = 0; i < kSuperBlock; ++i) PutPlane<2>(block + Q2_K::kCodesAt, i, codes[i]);
}

// See ScalesAndMinimums.
inline void PackScalesAndMinimums(const Lines& lines, u8_t* p) {
  for (int j = 0; j < 4; ++j) {
    p[j] = static_cast<u8_t>(lines.s[j] | lines.s[j + 4] >> 4 << 6);
    p[j + 4] = static_cast<u8_t>(lines.o[j] | lines.o[j + 4] >> 4 << 6);
    p[j + 8] = static_cast<u8_t>((lines.s[j + 4] & 15) | (lines.o[j + 4] & 15) << 4);
  }
}

inline void EncodeBlock(Q4_K, const float* x, u8_t* block) {
  u8_t codes[kSuperBlock];
  PackScalesAndMinimums(EncodeLines<Q4_K, Steps15, ScalesOf6>(x, block, codes), block + Q4_K::kScalesAt);
  for (int i = 0; i < kSuperBlock; ++i) PutPlane<4>(block + Q4_K::kCodesAt, i, codes[i]);
}

inline void EncodeBlock(Q5_K, const float* x, u8_t* block) {
  u8_t codes[kSuperBlock];
  PackScalesAndMinimums(EncodeLines<Q5_K, Steps31, ScalesOf6>(x, block, codes), block + Q5_K::kScalesAt);
  for (int i = 0; i < kSuperBlock; ++i) {
    PutPlane<4>(block + Q5_K::kCodesAt, i, codes[i] & 15);
    PutPlane<1>(block + Q5_K::kHighBitsAt, i, codes[i] >> 4);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
