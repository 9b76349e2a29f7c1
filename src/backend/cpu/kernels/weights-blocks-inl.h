// SPDX-License-Identifier: Apache-2.0
// Whole blocks of every block type to f32, with the bits of shared/weights. Codes become lanes of 32 bits before they
// are cut apart: a vector of lanes is the unit of work, whatever the block. DecodeBlock(block type, bytes, sink) calls
// sink(i, v) with the vectors of weights from i on, in order. Included once per Highway target.
#if defined(FOVEA_CPU_WEIGHTS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_WEIGHTS_BLOCKS_INL_H_
#undef FOVEA_CPU_WEIGHTS_BLOCKS_INL_H_
#else
#define FOVEA_CPU_WEIGHTS_BLOCKS_INL_H_
#endif

#include "backend/cpu/kernels/convert-inl.h"
#include "shared/weights/weights.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

// At most 16 lanes: the smallest group that has a scale of its own.
using BlockTag = hn::CappedTag<float, 16>;
using CodeTag = hn::RebindToSigned<BlockTag>;
using Scales = hn::Vec<BlockTag>;
using Codes = hn::Vec<CodeTag>;
constexpr size_t kBlockLanes = hn::MaxLanes(BlockTag());

template <class Byte = uint8_t>
HWY_INLINE Codes LoadCodes(const u8_t* p) {
  const hn::Rebind<Byte, BlockTag> d8;
  return hn::PromoteTo(CodeTag(), hn::LoadU(d8, reinterpret_cast<const Byte*>(p)));
}

HWY_INLINE Codes Low4(Codes bytes) {
  return hn::And(bytes, hn::Set(CodeTag(), 15));
}

template <class D>
HWY_INLINE hn::Vec<D> WidenHalves(D d, hn::Vec<hn::Rebind<uint16_t, D>> halves) {
#if (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL) && !defined(HWY_DISABLE_F16C)
  // One instruction; elsewhere Highway emulates it without infinities.
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), halves));
#else
  return Widen(F16(), d, hn::PromoteTo(hn::RebindToUnsigned<D>(), halves));
#endif
}

// An f16 in every lane.
HWY_INLINE Scales F16At(const u8_t* p) {
  return WidenHalves(BlockTag(), hn::Set(hn::Rebind<uint16_t, BlockTag>(), u16_at(p)));
}

// 16 bytes by one store: loads of any part of them need not wait for several.
HWY_INLINE void StoreWords(u64_t low, u64_t high, u8_t* out) {
  const hn::Full128<uint64_t> d;
  hn::Store(hn::InterleaveLower(d, hn::Set(d, low), hn::Set(d, high)), d, reinterpret_cast<uint64_t*>(out));
}

// Loads after this are loads: they fill a vector with one float for free. A compiler that knows what was stored would
// rather shuffle registers, which costs as much as a multiply-add.
template <int count>
HWY_INLINE void KeepInMemory(float (&values)[count]) {
  asm("" : "+m"(values));
}

// Scale and minimum of a block of 32.
struct LinearScales {
  Scales scale;
  Scales minimum;  // of types that have one

  template <class Block>
  HWY_INLINE LinearScales(Block, const u8_t* block) : scale(F16At(block + Block::kScaleAt)), minimum(scale) {
    if constexpr (requires { Block::kMinimumAt; }) minimum = F16At(block + Block::kMinimumAt);
  }
  HWY_INLINE LinearScales(const float* both)
      : scale(hn::Set(BlockTag(), both[0])), minimum(hn::Set(BlockTag(), both[1])) {}
};

// Those of kRun blocks, converted together.
struct ScaleRun {
  static constexpr int kRun = 4;
  HWY_ALIGN float values[2 * kRun];

  template <class Block>
  HWY_INLINE ScaleRun(Block, const u8_t* block) {
    // Without a minimum the first codes are in its place, and become a number that nobody uses.
    const auto both = [&](int i) -> u64_t {
      return load<u32_t>(reinterpret_cast<const char*>(block + i * Block::kBytes + Block::kScaleAt));
    };
    HWY_ALIGN u8_t halves[4 * kRun];
    StoreWords(both(0) | both(1) << 32, both(2) | both(3) << 32, halves);
    const hn::CappedTag<float, 8> d;
    const hn::Rebind<uint16_t, decltype(d)> d16;
#pragma GCC unroll 2
    for (size_t i = 0; i < 2 * kRun; i += hn::MaxLanes(d)) {
      hn::Store(WidenHalves(d, hn::Load(d16, reinterpret_cast<const uint16_t*>(halves) + i)), d, values + i);
    }
    KeepInMemory(values);
  }
  HWY_INLINE LinearScales At(int i) const {
    return values + 2 * i;
  }
};

// weight = q * d, and q * d + m.
HWY_INLINE Scales Weight(Codes q, Scales scale) {
  return hn::Mul(hn::ConvertTo(BlockTag(), q), scale);
}
HWY_INLINE Scales Weight(Codes q, Scales scale, Scales minimum) {
  return hn::MulAdd(hn::ConvertTo(BlockTag(), q), scale, minimum);
}

// The weights of codes of 4 bits, weight(q). Where a vector has 16 lanes it holds the weights of all codes, and code
// picks its own.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
struct OfNibble {
  template <class Formula>
  HWY_INLINE explicit OfNibble(const Formula& weight) : all(weight(hn::Iota(CodeTag(), 0))) {}
  // Bits above the lowest four may be anything.
  HWY_INLINE Scales operator()(Codes bytes) const { return Scales{_mm512_permutexvar_ps(bytes.raw, all.raw)}; }
  Scales all;
};
#else
template <class Formula>
struct OfNibble {
  HWY_INLINE explicit OfNibble(const Formula& formula) : weight(formula) {}
  HWY_INLINE Scales operator()(Codes bytes) const { return weight(Low4(bytes)); }
  Formula weight;
};
#endif

// Vectors of the codes in `count` bytes.
template <size_t count>
struct CodeVectors {
  static constexpr size_t kVectors = count / kBlockLanes;
  HWY_INLINE explicit CodeVectors(const u8_t* p) {
#pragma GCC unroll 16
    for (size_t j = 0; j < kVectors; ++j) v[j] = LoadCodes(p + j * kBlockLanes);
  }
  Codes v[kVectors];
};

// Calls body(i, q) for the vectors of weights whose codes stand in `count` bytes: low nibbles, then high ones. Bits of
// q above the lowest four may be anything.
template <size_t count, class Body>
HWY_INLINE void ForNibbles(const u8_t* p, const Body& body) {
  const CodeVectors<count> bytes(p);
#pragma GCC unroll 16
  for (size_t j = 0; j < bytes.kVectors; ++j) body(j * kBlockLanes, bytes.v[j]);
#pragma GCC unroll 16
  for (size_t j = 0; j < bytes.kVectors; ++j) body(count + j * kBlockLanes, hn::ShiftRight<4>(bytes.v[j]));
}

// The weights of codes of 5 bits, weight(q), whose fifth bits are those of a word from bit i on.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
struct OfFive {
  template <class Formula>
  HWY_INLINE explicit OfFive(const Formula& weight)
      : low(weight(hn::Iota(CodeTag(), 0))), high(weight(hn::Iota(CodeTag(), 16))) {}
  HWY_INLINE Scales operator()(Codes nibbles, u32_t word, size_t i) const {
    const auto picked = _mm512_permutexvar_ps(nibbles.raw, low.raw);
    return Scales{_mm512_mask_permutexvar_ps(picked, static_cast<__mmask16>(word >> i), nibbles.raw, high.raw)};
  }
  Scales low, high;
};
#else
template <class Formula>
struct OfFive {
  HWY_INLINE explicit OfFive(const Formula& formula) : weight(formula) {}
  HWY_INLINE Scales operator()(Codes nibbles, u32_t word, size_t i) const {
    HWY_ALIGN static constexpr int32_t kLaneBits[16] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                                        1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                                        1 << 12, 1 << 13, 1 << 14, 1 << 15};
    const CodeTag d;
    const auto given = hn::TestBit(hn::Set(d, static_cast<int32_t>(word >> i)), hn::Load(d, kLaneBits));
    return weight(hn::Or(Low4(nibbles), hn::IfThenElseZero(given, hn::Set(d, 16))));
  }
  Formula weight;
};
#endif

template <class Sink>
HWY_INLINE void DecodeBlock(Q4_0, const u8_t* block, LinearScales scales, const Sink& sink) {
  const OfNibble weight([&](Codes q) { return Weight(hn::Sub(q, hn::Set(CodeTag(), Q4_0::kZero)), scales.scale); });
  ForNibbles<16>(block + Q4_0::kCodesAt, [&](size_t i, Codes q) { sink(i, weight(q)); });
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q4_1, const u8_t* block, LinearScales scales, const Sink& sink) {
  const OfNibble weight([&](Codes q) { return Weight(q, scales.scale, scales.minimum); });
  ForNibbles<16>(block + Q4_1::kCodesAt, [&](size_t i, Codes q) { sink(i, weight(q)); });
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q5_0, const u8_t* block, LinearScales scales, const Sink& sink) {
  const u32_t fifth = load<u32_t>(reinterpret_cast<const char*>(block + Q5_0::kHighBitsAt));
  const OfFive weight([&](Codes q) { return Weight(hn::Sub(q, hn::Set(CodeTag(), Q5_0::kZero)), scales.scale); });
  ForNibbles<16>(block + Q5_0::kCodesAt, [&](size_t i, Codes q) { sink(i, weight(q, fifth, i)); });
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q5_1, const u8_t* block, LinearScales scales, const Sink& sink) {
  const u32_t fifth = load<u32_t>(reinterpret_cast<const char*>(block + Q5_1::kHighBitsAt));
  const OfFive weight([&](Codes q) { return Weight(q, scales.scale, scales.minimum); });
  ForNibbles<16>(block + Q5_1::kCodesAt, [&](size_t i, Codes q) { sink(i, weight(q, fifth, i)); });
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q8_0, const u8_t* block, LinearScales scales, const Sink& sink) {
#pragma GCC unroll 8
  for (size_t i = 0; i < 32; i += kBlockLanes) {
    sink(i, Weight(LoadCodes<int8_t>(block + Q8_0::kCodesAt + i), scales.scale));
  }
}

// iq4_nl and mxfp4: the values are looked up while they are bytes.
template <class Block, class Sink>
HWY_INLINE void DecodeTable(const u8_t* block, Scales scale, const Sink& sink) {
  const hn::Rebind<uint8_t, BlockTag> d8;
  const hn::RebindToSigned<decltype(d8)> d8i;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const OfNibble weight([&](Codes) { return Weight(hn::PromoteTo(CodeTag(), hn::LoadU(d8i, Block::kValues)), scale); });
  ForNibbles<16>(block + Block::kCodesAt, [&](size_t i, Codes q) { sink(i, weight(q)); });
#else
  const hn::Full128<int8_t> table_tag;
  const auto table = hn::LoadU(table_tag, Block::kValues);
  const auto put = [&](size_t i, auto index) {
    const auto values = hn::BitCast(d8i, hn::TableLookupBytes(table, index));
    sink(i, Weight(hn::PromoteTo(CodeTag(), values), scale));
  };
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += kBlockLanes) {
    put(i, hn::And(hn::LoadU(d8, block + Block::kCodesAt + i), hn::Set(d8, uint8_t{15})));
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += kBlockLanes)
    put(16 + i, hn::ShiftRight<4>(hn::LoadU(d8, block + Block::kCodesAt + i)));
#endif
}
template <class Sink>
HWY_INLINE void DecodeBlock(IQ4_NL, const u8_t* block, LinearScales scales, const Sink& sink) {
  DecodeTable<IQ4_NL>(block, scales.scale, sink);
}
template <class Sink>
HWY_INLINE void DecodeBlock(MXFP4, const u8_t* block, const Sink& sink) {
  DecodeTable<MXFP4>(block, hn::Set(BlockTag(), MXFP4::scale(block)), sink);
}

// Types with LinearScales.
template <class Block>
constexpr bool kHasLinearScales = Block::kWeights == 32 && requires {
  Block::kScaleAt;
};

template <class Block, class Sink>
requires kHasLinearScales<Block> HWY_INLINE void DecodeBlock(Block block, const u8_t* p, const Sink& sink) {
  DecodeBlock(block, p, LinearScales(block, p), sink);
}

// Scales of the groups of a K block, then their minimums, negated.
struct Groups {
  HWY_ALIGN float values[32];

  HWY_INLINE Scales At(size_t i) const { return hn::Set(BlockTag(), values[i]); }
};

// Whole numbers times one f16, to 16 floats.
template <class Whole>
HWY_INLINE void ScaleGroups(Scales factor, const Whole& whole, float* out) {
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += kBlockLanes) hn::StoreU(Weight(whole(i), factor), BlockTag(), out + i);
}

// Calls body(at, i, q) for the vectors of a block whose 2-bit codes lie in two planes: weight at, the byte i of the
// high plane that has a bit of it, and the code.
template <class Body>
HWY_INLINE void ForPairs(const u8_t* p, const Body& body) {
  const Codes three = hn::Set(CodeTag(), 3);
  for (size_t part = 0; part < 256; part += 128, p += 32) {
    const CodeVectors<32> bytes(p);
    const auto each = [&](size_t at, const auto& code) {
#pragma GCC unroll 8
      for (size_t j = 0; j < bytes.kVectors; ++j) body(at + j * kBlockLanes, j * kBlockLanes, code(bytes.v[j]));
    };
    each(part, [&](Codes b) { return hn::And(b, three); });
    each(part + 32, [&](Codes b) { return hn::And(hn::ShiftRight<2>(b), three); });
    each(part + 64, [&](Codes b) { return hn::And(hn::ShiftRight<4>(b), three); });
    each(part + 96, [&](Codes b) { return hn::ShiftRight<6>(b); });
  }
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q2_K, const u8_t* block, const Sink& sink) {
  const u8_t* scales = block + Q2_K::kScalesAt;
  Groups groups;
  ScaleGroups(
      F16At(block + Q2_K::kScaleAt), [&](size_t i) { return Low4(LoadCodes(scales + i)); }, groups.values);
  ScaleGroups(
      hn::Neg(F16At(block + Q2_K::kMinimumAt)), [&](size_t i) { return hn::ShiftRight<4>(LoadCodes(scales + i)); },
      groups.values + 16);
  KeepInMemory(groups.values);
  ForPairs(block + Q2_K::kCodesAt,
           [&](size_t at, size_t, Codes q) { sink(at, Weight(q, groups.At(at / 16), groups.At(16 + at / 16))); });
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q3_K, const u8_t* block, const Sink& sink) {
  const CodeTag d;
  const char* p = reinterpret_cast<const char*>(block + Q3_K::kScalesAt);
  const u64_t low = load<u64_t>(p), high = load<u32_t>(p + 8), nibbles = 0x0F0F0F0F0F0F0F0Full, pairs = 0x30303030u;
  // Two high bits of groups 4 g to 4 g + 3 are bits 2 g of the last four bytes.
  const auto upper = [&](int g) { return (g < 2 ? high << (4 - 2 * g) : high >> (2 * g - 4)) & pairs; };
  HWY_ALIGN u8_t scales[16];
  StoreWords((low & nibbles) | upper(0) | upper(1) << 32, (low >> 4 & nibbles) | upper(2) | upper(3) << 32, scales);
  Groups groups;
  ScaleGroups(
      F16At(block + Q3_K::kScaleAt),
      [&](size_t i) { return hn::Sub(LoadCodes(scales + i), hn::Set(d, Q3_K::kScaleZero)); }, groups.values);
  KeepInMemory(groups.values);
  ForPairs(block + Q3_K::kCodesAt, [&](size_t at, size_t i, Codes q) {
    const Codes bits = LoadCodes(block + Q3_K::kHighBitsAt + i);
    const auto given = hn::TestBit(bits, hn::Set(d, 1 << (at / 32)));
    sink(at, Weight(hn::Sub(q, hn::IfThenZeroElse(given, hn::Set(d, 4))), groups.At(at / 16)));
  });
}

// Of q4_k and q5_k: 8 scales and 8 minimums.
HWY_INLINE void LoadGroups(const u8_t* block, Groups& groups) {
  const char* p = reinterpret_cast<const char*>(block + K8Groups::kScalesAt);
  const u32_t a = load<u32_t>(p), b = load<u32_t>(p + 4), c = load<u32_t>(p + 8);
  const u64_t scales_high = (c & 0x0F0F0F0Fu) | (a >> 2 & 0x30303030u);
  const u64_t minimums_high = (c >> 4 & 0x0F0F0F0Fu) | (b >> 2 & 0x30303030u);
  HWY_ALIGN u8_t whole[16];
  StoreWords((a & 0x3F3F3F3Fu) | scales_high << 32, (b & 0x3F3F3F3Fu) | minimums_high << 32, whole);
  const BlockTag d;
  const Scales scale = F16At(block + K8Groups::kScaleAt), minimum = hn::Neg(F16At(block + K8Groups::kMinimumAt));
  for (size_t i = 0; i < 16; i += kBlockLanes) {
    const size_t scales = i < 8 ? 8 - i : 0;  // in this vector
    const Scales factor = hn::IfThenElse(hn::FirstN(d, scales), scale, minimum);
    hn::StoreU(Weight(LoadCodes(whole + i), factor), d, groups.values + i);
  }
  KeepInMemory(groups.values);
}

// q4_k and q5_k: nibbles 32 apart, two groups of 32 in 32 bytes.
template <class Sink>
HWY_INLINE void DecodeBlock(Q4_K, const u8_t* block, const Sink& sink) {
  Groups groups;
  LoadGroups(block, groups);
  for (size_t group = 0; group < 8; group += 2) {
    const auto of_group = [&](size_t g) {
      return OfNibble(
          [scale = groups.At(g), minimum = groups.At(8 + g)](Codes q) { return Weight(q, scale, minimum); });
    };
    const auto weight0 = of_group(group), weight1 = of_group(group + 1);
    ForNibbles<32>(block + Q4_K::kCodesAt + group * 16,
                   [&](size_t i, Codes q) { sink(group * 32 + i, i < 32 ? weight0(q) : weight1(q)); });
  }
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q5_K, const u8_t* block, const Sink& sink) {
  const CodeTag d;
  Groups groups;
  LoadGroups(block, groups);
  const CodeVectors<32> fifth(block + Q5_K::kHighBitsAt);
  for (size_t group = 0; group < 8; group += 2) {
    const Scales scale0 = groups.At(group), minimum0 = groups.At(8 + group);
    const Scales scale1 = groups.At(group + 1), minimum1 = groups.At(9 + group);
    const Codes bit0 = hn::Set(d, 1 << group), bit1 = hn::Set(d, 2 << group);
    ForNibbles<32>(block + Q5_K::kCodesAt + group * 16, [&](size_t i, Codes nibbles) {
      const bool low = i < 32;
      const auto given = hn::TestBit(fifth.v[i % 32 / kBlockLanes], low ? bit0 : bit1);
      const Codes q = hn::Or(Low4(nibbles), hn::IfThenElseZero(given, hn::Set(d, 16)));
      sink(group * 32 + i, Weight(q, low ? scale0 : scale1, low ? minimum0 : minimum1));
    });
  }
}

template <class Sink>
HWY_INLINE void DecodeBlock(Q6_K, const u8_t* block, const Sink& sink) {
  const CodeTag d;
  const Codes high = hn::Set(d, 0x30), zero = hn::Set(d, Q6_K::kZero);
  Groups groups;
  ScaleGroups(
      F16At(block + Q6_K::kScaleAt), [&](size_t i) { return LoadCodes<int8_t>(block + Q6_K::kScalesAt + i); },
      groups.values);
  KeepInMemory(groups.values);
  for (size_t part = 0; part < 2; ++part) {
    const CodeVectors<32> bits(block + Q6_K::kHighBitsAt + part * 32);
    const CodeVectors<64> low(block + Q6_K::kCodesAt + part * 64);
    const auto each = [&](size_t at, const auto& nibble, const auto& upper) {
#pragma GCC unroll 8
      for (size_t j = 0; j < bits.kVectors; ++j) {
        const Codes q = hn::Sub(hn::Or(nibble(j), hn::And(upper(bits.v[j]), high)), zero);
        const size_t i = part * 128 + at + j * kBlockLanes;
        sink(i, Weight(q, groups.At(i / 16)));
      }
    };
    constexpr size_t kHalf = bits.kVectors;
    each(
        0, [&](size_t j) { return Low4(low.v[j]); }, [](Codes b) { return hn::ShiftLeft<4>(b); });
    each(
        32, [&](size_t j) { return Low4(low.v[kHalf + j]); }, [](Codes b) { return hn::ShiftLeft<2>(b); });
    each(
        64, [&](size_t j) { return hn::ShiftRight<4>(low.v[j]); }, [](Codes b) { return b; });
    each(
        96, [&](size_t j) { return hn::ShiftRight<4>(low.v[kHalf + j]); },
        [](Codes b) { return hn::ShiftRight<2>(b); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
