// SPDX-License-Identifier: Apache-2.0
// Blocks of 32 weights: scale and codes with the least squared error, and their bytes. Included once per Highway
// target.
//
// Weights that a block can hold exactly come out of it unchanged: scales under which all of them are on codes are tried
// first. Every Encode* takes finite weights of at most 2^30.
#if defined(FOVEA_CPU_QUANTIZE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_QUANTIZE_BLOCKS_INL_H_
#undef FOVEA_CPU_QUANTIZE_BLOCKS_INL_H_
#else
#define FOVEA_CPU_QUANTIZE_BLOCKS_INL_H_
#endif

#include "backend/cpu/kernels/quantize-fit-inl.h"
#include "shared/weights/weights.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr int kBlock = 32;

inline void PutF16(float x, u8_t* to) {
  const u16_t h = f32_to_f16(x);
  to[0] = static_cast<u8_t>(h);
  to[1] = static_cast<u8_t>(h >> 8);
}

// A block that decodes to NaN; mxfp4 has none, and decodes to infinity.
template <class Block>
inline void EncodeNan(Block, u8_t* block) {
  for (int i = 0; i < Block::kBytes; ++i) block[i] = 0;
  PutF16(__builtin_nanf(""), block + Block::kScaleAt);
}
inline void EncodeNan(MXFP4, u8_t* block) {
  for (int i = 0; i < MXFP4::kBytes; ++i) block[i] = 0x77;
  block[MXFP4::kExponentAt] = 0xFF;
}

// ---- books: see FitScale and FitLine ----

struct Signed4 : Whole<-8, 7> {
  static constexpr int passes = 2;
  static constexpr float targets[kCandidates] = {-9.25f, -9, -8.75f, -8.5f, -8.25f, -8,   -7.75f, -7.5f,
                                                 -7.25f, -7, 6.75f,  7,     7.25f,  7.5f, 7.75f,  8};
};
struct Signed5 : Whole<-16, 15> {
  static constexpr int passes = 2;
  static constexpr float targets[kCandidates] = {-17, -16.75f, -16.5f, -16.25f, -16, -15.75f, -15.5f, -15.25f,
                                                 -15, -14.75f, 14.5f,  14.75f,  15,  15.25f,  15.5f,  15.75f};
};
struct Signed8 : Whole<-128, 127> {
  static constexpr int passes = 1;
  static constexpr float targets[kCandidates] = {-128.5f, -128.25f, -128,    -127.75f, -127.5f, -127.25f,
                                                 -127,    -126.75f, -126.5f, -126.25f, -126,    126,
                                                 126.5f,  127,      127.25f, 127.5f};
};
// The values of iq4_nl.
struct NonLinear4 {
  static constexpr int passes = 1;
  static constexpr float targets[kCandidates] = {-140, -136, -132, -128, -124, -120, -116, -112,
                                                 -106, 104,  108,  112,  116,  120,  124,  128};
  static HWY_INLINE FitVec Nearest(FitVec x) {
    const FitTag d;
    FitVec value = hn::Set(d, IQ4_NL::kValues[0]);
    for (int i = 1; i < 16; ++i) {
      const auto middle = static_cast<float>(IQ4_NL::kValues[i - 1] + IQ4_NL::kValues[i]) / 2;
      value = hn::IfThenElse(hn::Gt(x, hn::Set(d, middle)), hn::Set(d, IQ4_NL::kValues[i]), value);
    }
    return value;
  }
};
// The values of mxfp4.
struct Fp4 {
  static HWY_INLINE FitVec Nearest(FitVec x) {
    const FitTag d;
    const FitVec magnitude = hn::Abs(x);
    FitVec value = hn::Zero(d);
    for (int i = 1; i < 8; ++i) {
      const auto middle = static_cast<float>(MXFP4::kValues[i - 1] + MXFP4::kValues[i]) / 2;
      value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, middle)), hn::Set(d, MXFP4::kValues[i]), value);
    }
    return hn::CopySign(value, x);
  }
};
struct Steps15 {
  static constexpr int top = 15, batches = 1, passes = 2;
  static constexpr float cuts[] = {14.5f, 14.5f, 15,    15.5f, 15.5f, 15.5f, 16, 16,
                                   16,    16.5f, 16.5f, 16.5f, 17,    17,    17, 18};
  static constexpr float anchors[] = {0, 1, 0, 0, 0.5f, 1, 0, 0.5f, 1, 0, 0.5f, 1, 0, 0.5f, 1, 0.5f};
};
struct Steps31 {
  static constexpr int top = 31, batches = 1, passes = 2;
  static constexpr float cuts[] = {30,    30, 30.5f, 30.5f, 31,    31.25f, 31.25f, 31.5f,
                                   31.5f, 32, 32,    32,    32.5f, 32.5f,  33,     33};
  static constexpr float anchors[] = {0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0.5f, 1, 0, 1, 0, 1};
};

// ---- weights that a block can hold exactly ----

// Is x one that f16 holds? Subnormals of f16 included.
inline bool IsF16(float x) {
  return f16_to_f32(f32_to_f16(x)) == x;
}
// A quick answer, "no" or "perhaps": f16 has 11 bits.
inline bool MayBeF16(float x) {
  return (bits_of_float(x) & 0x1FFFu) == 0;
}

template <class Book>
inline bool IsExact(const float* x, float d) {
  const FitTag tag;
  const FitVec scale = hn::Set(tag, d), inverse = hn::Set(tag, 1.0f / d);
  for (int i = 0; i < kBlock; i += kFitLanes) {
    const FitVec v = hn::LoadU(tag, x + i);
    if (!hn::AllTrue(tag, hn::Eq(hn::Mul(Book::Nearest(hn::Mul(v, inverse)), scale), v))) return false;
  }
  return true;
}

// The scale of a block that holds x exactly, or 0: the largest weight divided by one of `codes`, which are positive
// (their negatives are tried too); `count` is a multiple of 16.
template <class Book>
inline float ExactScale(const float* x, const float* codes, int count) {
  const FitTag tag;
  const hn::RebindToUnsigned<FitTag> du;
  const float extreme = RangeOf(x, kBlock).extreme();
  // A product of an f16 and a code has 11 + 8 bits at most.
  if (extreme == 0 || (bits_of_float(extreme) & 0x1Fu) != 0) return 0;
  for (int i = 0; i < count; i += kFitLanes) {
    const FitVec d = hn::Div(hn::Set(tag, extreme), hn::LoadU(tag, codes + i));
    if (hn::AllFalse(du, hn::Eq(hn::And(hn::BitCast(du, d), hn::Set(du, 0x1FFFu)), hn::Zero(du)))) continue;
    for (int j = i; j < i + kFitLanes; ++j) {
      const float size = extreme / codes[j];
      if (!MayBeF16(size) || !IsF16(size) || size == 0 || size * codes[j] != extreme) continue;
      if (IsExact<Book>(x, size)) return size;
      if (IsExact<Book>(x, -size)) return -size;
    }
  }
  return 0;
}

template <int count>
struct UpTo {  // 1, 2, ...
  float code[count];
  constexpr UpTo() : code() {
    for (int i = 0; i < count; ++i) code[i] = static_cast<float>(i + 1);
  }
};

// The line of a block that holds x exactly.
inline bool ExactLine(const float* x, int top, LineFit* line) {
  const Range range = RangeOf(x, kBlock);
  const float span = range.high - range.low;
  if (span == 0) {
    *line = {0, range.low};
    return IsF16(range.low);
  }
  for (int steps = 1; steps <= top; ++steps) {
    const float size = span / static_cast<float>(steps);
    if (!MayBeF16(size) || !IsF16(size)) continue;
    for (int below = 0; below <= top - steps; ++below) {
      for (const float d : {size, -size}) {
        const float m = (d > 0 ? range.low : range.high) - static_cast<float>(below) * d;
        if (!MayBeF16(m) || !IsF16(m)) continue;
        int same = 0;
        for (; same < kBlock; ++same) {
          const float q = __builtin_rintf((x[same] - m) / d);
          if (!(q >= 0 && q <= static_cast<float>(top) && q * d + m == x[same])) break;
        }
        if (same < kBlock) continue;
        *line = {d, m};
        return true;
      }
    }
  }
  return false;
}

// ---- codes ----

// Codes of x / d, plus `shift`.
template <class Book>
inline void CodesOf(const float* x, int n, float d, int shift, u8_t* codes) {
  const FitTag tag;
  const hn::RebindToSigned<FitTag> di;
  const hn::Rebind<uint8_t, FitTag> d8;
  const FitVec inverse = Inverse(hn::Set(tag, d));
  for (int i = 0; i < n; i += kFitLanes) {
    const FitVec q = Book::Nearest(hn::Mul(hn::LoadU(tag, x + i), inverse));
    const auto code = hn::Add(hn::ConvertTo(di, q), hn::Set(di, shift));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<FitTag>(), code)), d8, codes + i);
  }
}

inline void LineCodesOf(const float* x, int n, LineFit line, int top, u8_t* codes) {
  const FitTag tag;
  const hn::RebindToSigned<FitTag> di;
  const hn::Rebind<uint8_t, FitTag> d8;
  const FitVec inverse = Inverse(hn::Set(tag, line.d)), m = hn::Set(tag, line.m);
  for (int i = 0; i < n; i += kFitLanes) {
    const FitVec t = hn::Mul(hn::Sub(hn::LoadU(tag, x + i), m), inverse);
    const FitVec q = hn::Round(hn::Min(hn::Max(t, hn::Zero(tag)), hn::Set(tag, static_cast<float>(top))));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, q)), d8, codes + i);
  }
}

// Low nibbles are weights 0 to 15.
inline void PackNibbles(const u8_t* codes, u8_t* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<u8_t>((codes[i] & 15) | (codes[16 + i] & 15) << 4);
}
inline void PackFifthBits(const u8_t* codes, u8_t* to) {
  for (int j = 0; j < 4; ++j) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (codes[8 * j + i] >> 4 & 1) << i;
    to[j] = static_cast<u8_t>(bits);
  }
}

// Codes of the values of a table, which are within +-128; of two codes for one value the first.
template <class Block>
struct CodeOfValue {
  u8_t code[256];
  constexpr CodeOfValue() : code() {
    for (int i = 15; i >= 0; --i) code[Block::kValues[i] + 128] = static_cast<u8_t>(i);
  }
};
template <class Block, class Book>
inline void PackTableCodes(const float* x, float d, u8_t* to) {
  static constexpr CodeOfValue<Block> kCodes;
  u8_t codes[kBlock];
  CodesOf<Book>(x, kBlock, d, 128, codes);
  for (u8_t& code : codes) code = kCodes.code[code];
  PackNibbles(codes, to);
}

// ---- types ----

// `magnitudes` of the codes, without 0.
template <class Book, int count>
inline float ScaleOf(const float* x, const float (&magnitudes)[count]) {
  const float exact = ExactScale<Book>(x, magnitudes, count);
  return exact != 0 ? exact : FitScale<Book, AsF16>(x, kBlock).d;
}

template <class Book>
inline LineFit LineOf(const float* x) {
  LineFit line;
  return ExactLine(x, Book::top, &line) ? line : FitLine<Book, AsF16, false>(x, kBlock);
}

template <class Block, class Book>
inline void EncodeScaled(const float* x, u8_t* block, u8_t* codes) {
  static constexpr UpTo<(-Book::low + 15) / 16 * 16> kMagnitudes;
  const float d = ScaleOf<Book>(x, kMagnitudes.code);
  PutF16(d, block + Block::kScaleAt);
  CodesOf<Book>(x, kBlock, d, Block::kZero, codes);
  PackNibbles(codes, block + Block::kCodesAt);
}
inline void EncodeBlock(Q4_0, const float* x, u8_t* block) {
  u8_t codes[kBlock];
  EncodeScaled<Q4_0, Signed4>(x, block, codes);
}
inline void EncodeBlock(Q5_0, const float* x, u8_t* block) {
  u8_t codes[kBlock];
  EncodeScaled<Q5_0, Signed5>(x, block, codes);
  PackFifthBits(codes, block + Q5_0::kHighBitsAt);
}
inline void EncodeBlock(Q8_0, const float* x, u8_t* block) {
  static constexpr UpTo<128> kMagnitudes;
  const float d = ScaleOf<Signed8>(x, kMagnitudes.code);
  PutF16(d, block + Q8_0::kScaleAt);
  CodesOf<Signed8>(x, kBlock, d, 0, block + Q8_0::kCodesAt);
}

template <class Block, class Book>
inline void EncodeLine(const float* x, u8_t* block, u8_t* codes) {
  const LineFit line = LineOf<Book>(x);
  PutF16(line.d, block + Block::kScaleAt);
  PutF16(line.m, block + Block::kMinimumAt);
  LineCodesOf(x, kBlock, line, Book::top, codes);
  PackNibbles(codes, block + Block::kCodesAt);
}
inline void EncodeBlock(Q4_1, const float* x, u8_t* block) {
  u8_t codes[kBlock];
  EncodeLine<Q4_1, Steps15>(x, block, codes);
}
inline void EncodeBlock(Q5_1, const float* x, u8_t* block) {
  u8_t codes[kBlock];
  EncodeLine<Q5_1, Steps31>(x, block, codes);
  PackFifthBits(codes, block + Q5_1::kHighBitsAt);
}

inline void EncodeBlock(IQ4_NL, const float* x, u8_t* block) {
  static constexpr float kMagnitudes[] = {1, 10, 13, 22, 25, 35, 38, 49, 53, 65, 69, 83, 89, 104, 113, 127};
  const float d = ScaleOf<NonLinear4>(x, kMagnitudes);
  PutF16(d, block + IQ4_NL::kScaleAt);
  PackTableCodes<IQ4_NL, NonLinear4>(x, d, block + IQ4_NL::kCodesAt);
}

// 2^n, n in [-126, 127].
inline float PowerOfTwo(int n) {
  return float_of_bits(static_cast<u32_t>(n + 127) << 23);
}

// The exponent is the one under which the largest weight is in [4, 8) of e2m1, whose most is 6, or a neighbour.
inline void EncodeBlock(MXFP4, const float* x, u8_t* block) {
  const float most = __builtin_fabsf(RangeOf(x, kBlock).extreme());
  const int exponent = most > 0 ? __builtin_ilogbf(most) : 0;
  // Weights below 2 in magnitude, by an exact product: two steps, so that each factor is a float.
  float y[kBlock];
  const float half = PowerOfTwo(-exponent / 2), rest = PowerOfTwo(-exponent - -exponent / 2);
  for (int i = 0; i < kBlock; ++i) y[i] = x[i] * half * rest;
  float scales[kCandidates];
  int exponents[kCandidates];
  for (int c = 0; c < kCandidates; ++c) {
    const int e = exponent + 125 + (c % 3 == 2 ? -1 : c % 3);
    exponents[c] = e < 0 ? 0 : e > 252 ? 252 : e;  // more would decode to infinity
    scales[c] = PowerOfTwo(exponents[c] - 128 - exponent);
  }
  const float offsets[kCandidates] = {};
  const int best = BestOf<Fp4>(y, kBlock, scales, offsets).index;
  block[MXFP4::kExponentAt] = static_cast<u8_t>(most > 0 ? exponents[best] : 0);
  PackTableCodes<MXFP4, Fp4>(y, scales[best], block + MXFP4::kCodesAt);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
