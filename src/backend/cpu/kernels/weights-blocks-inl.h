// SPDX-License-Identifier: Apache-2.0
// Whole blocks of every block type to f32, with the bits of shared/weights. Codes become lanes of 32 bits before they
// are cut apart: a vector of lanes is the unit of work, whatever the block. Included once per Highway target.
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

// An f16 in every lane.
HWY_INLINE Scales F16At(const u8_t* p) {
  const BlockTag d;
#if (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL) && !defined(HWY_DISABLE_F16C)
  // One instruction; elsewhere Highway emulates it without infinities.
  const auto bits = hn::Set(hn::Rebind<uint16_t, BlockTag>(), u16_at(p));
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, BlockTag>(), bits));
#else
  return Widen(F16(), d, hn::Set(hn::RebindToUnsigned<BlockTag>(), u16_at(p)));
#endif
}

// weight = q * d, and q * d + m.
HWY_INLINE void Put(Codes q, Scales scale, float* out) {
  const BlockTag d;
  hn::StoreU(hn::Mul(hn::ConvertTo(d, q), scale), d, out);
}
HWY_INLINE void Put(Codes q, Scales scale, Scales minimum, float* out) {
  const BlockTag d;
  hn::StoreU(hn::MulAdd(hn::ConvertTo(d, q), scale, minimum), d, out);
}

// Calls body(i, q) for the vectors of 32 weights that stand in 16 bytes of nibbles.
template <class Body>
HWY_INLINE void ForNibbles(const u8_t* p, const Body& body) {
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += kBlockLanes) {
    const Codes bytes = LoadCodes(p + i);
    body(i, Low4(bytes));
    body(16 + i, hn::ShiftRight<4>(bytes));
  }
}

// 16 in the lanes whose bit of the word's bits from i on is 1.
HWY_INLINE Codes FifthBits(u32_t word, size_t i) {
  HWY_ALIGN static constexpr int32_t kLaneBits[16] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                                      1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                                      1 << 12, 1 << 13, 1 << 14, 1 << 15};
  const CodeTag d;
  const auto given = hn::TestBit(hn::Set(d, static_cast<int32_t>(word >> i)), hn::Load(d, kLaneBits));
  return hn::IfThenElseZero(given, hn::Set(d, 16));
}

HWY_INLINE void DecodeBlock(Q4_0, const u8_t* block, float* out) {
  const Scales scale = F16At(block + Q4_0::kScaleAt);
  ForNibbles(block + Q4_0::kCodesAt,
             [&](size_t i, Codes q) { Put(hn::Sub(q, hn::Set(CodeTag(), Q4_0::kZero)), scale, out + i); });
}

HWY_INLINE void DecodeBlock(Q4_1, const u8_t* block, float* out) {
  const Scales scale = F16At(block + Q4_1::kScaleAt);
  const Scales minimum = F16At(block + Q4_1::kMinimumAt);
  ForNibbles(block + Q4_1::kCodesAt, [&](size_t i, Codes q) { Put(q, scale, minimum, out + i); });
}

HWY_INLINE void DecodeBlock(Q5_0, const u8_t* block, float* out) {
  const Scales scale = F16At(block + Q5_0::kScaleAt);
  const u32_t high = load<u32_t>(reinterpret_cast<const char*>(block + Q5_0::kHighBitsAt));
  ForNibbles(block + Q5_0::kCodesAt, [&](size_t i, Codes q) {
    Put(hn::Sub(hn::Or(q, FifthBits(high, i)), hn::Set(CodeTag(), Q5_0::kZero)), scale, out + i);
  });
}

HWY_INLINE void DecodeBlock(Q5_1, const u8_t* block, float* out) {
  const Scales scale = F16At(block + Q5_1::kScaleAt);
  const Scales minimum = F16At(block + Q5_1::kMinimumAt);
  const u32_t high = load<u32_t>(reinterpret_cast<const char*>(block + Q5_1::kHighBitsAt));
  ForNibbles(block + Q5_1::kCodesAt,
             [&](size_t i, Codes q) { Put(hn::Or(q, FifthBits(high, i)), scale, minimum, out + i); });
}

HWY_INLINE void DecodeBlock(Q8_0, const u8_t* block, float* out) {
  const Scales scale = F16At(block + Q8_0::kScaleAt);
#pragma GCC unroll 8
  for (size_t i = 0; i < 32; i += kBlockLanes) Put(LoadCodes<int8_t>(block + Q8_0::kCodesAt + i), scale, out + i);
}

// iq4_nl and mxfp4: the values are looked up while they are bytes.
template <class Block>
HWY_INLINE void DecodeTable(const u8_t* block, float* out) {
  const hn::Rebind<uint8_t, BlockTag> d8;
  const hn::RebindToSigned<decltype(d8)> d8i;
  const hn::Full128<int8_t> table_tag;
  const auto table = hn::LoadU(table_tag, Block::kValues);
  const Scales scale = hn::Set(BlockTag(), Block::scale(block));
  const auto put = [&](auto index, float* to) {
    const auto values = hn::BitCast(d8i, hn::TableLookupBytes(table, index));
    Put(hn::PromoteTo(CodeTag(), values), scale, to);
  };
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += kBlockLanes) {
    const auto bytes = hn::LoadU(d8, block + Block::kCodesAt + i);
    put(hn::And(bytes, hn::Set(d8, uint8_t{15})), out + i);
    put(hn::ShiftRight<4>(bytes), out + 16 + i);
  }
}
HWY_INLINE void DecodeBlock(IQ4_NL, const u8_t* block, float* out) {
  DecodeTable<IQ4_NL>(block, out);
}
HWY_INLINE void DecodeBlock(MXFP4, const u8_t* block, float* out) {
  DecodeTable<MXFP4>(block, out);
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
  for (size_t i = 0; i < 16; i += kBlockLanes) Put(whole(i), factor, out + i);
}

// 16 bytes by one store: loads of any part of them need not wait for several.
HWY_INLINE void StoreWords(u64_t low, u64_t high, u8_t* out) {
  const hn::Full128<uint64_t> d;
  hn::Store(hn::InterleaveLower(d, hn::Set(d, low), hn::Set(d, high)), d, reinterpret_cast<uint64_t*>(out));
}

// Calls body(i, bit, low) for the vectors of a block whose 2-bit codes lie in two planes: weight i, the bit of the
// high plane's byte i % 32 that belongs to it, and the code.
template <class Body>
HWY_INLINE void ForPairs(const u8_t* p, const Body& body) {
  const Codes three = hn::Set(CodeTag(), 3);
  for (size_t part = 0; part < 2; ++part, p += 32) {
#pragma GCC unroll 8
    for (size_t i = 0; i < 32; i += kBlockLanes) {
      const Codes bytes = LoadCodes(p + i);
      const size_t at = part * 128 + i;
      body(at, i, hn::And(bytes, three));
      body(at + 32, i, hn::And(hn::ShiftRight<2>(bytes), three));
      body(at + 64, i, hn::And(hn::ShiftRight<4>(bytes), three));
      body(at + 96, i, hn::ShiftRight<6>(bytes));
    }
  }
}

HWY_INLINE void DecodeBlock(Q2_K, const u8_t* block, float* out) {
  const u8_t* scales = block + Q2_K::kScalesAt;
  Groups groups;
  ScaleGroups(
      F16At(block + Q2_K::kScaleAt), [&](size_t i) { return Low4(LoadCodes(scales + i)); }, groups.values);
  ScaleGroups(
      hn::Neg(F16At(block + Q2_K::kMinimumAt)), [&](size_t i) { return hn::ShiftRight<4>(LoadCodes(scales + i)); },
      groups.values + 16);
  ForPairs(block + Q2_K::kCodesAt,
           [&](size_t at, size_t, Codes q) { Put(q, groups.At(at / 16), groups.At(16 + at / 16), out + at); });
}

HWY_INLINE void DecodeBlock(Q3_K, const u8_t* block, float* out) {
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
  ForPairs(block + Q3_K::kCodesAt, [&](size_t at, size_t i, Codes q) {
    const Codes bits = LoadCodes(block + Q3_K::kHighBitsAt + i);
    const auto given = hn::TestBit(bits, hn::Set(d, 1 << (at / 32)));
    Put(hn::Sub(q, hn::IfThenZeroElse(given, hn::Set(d, 4))), groups.At(at / 16), out + at);
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
    Put(LoadCodes(whole + i), hn::IfThenElse(hn::FirstN(d, scales), scale, minimum), groups.values + i);
  }
}

// q4_k and q5_k: nibbles 32 apart, two groups of 32 in 32 bytes. code(i, group, q) adds what stands elsewhere.
template <class Code>
HWY_INLINE void DecodeNibbles(const u8_t* block, const u8_t* codes, const Code& code, float* out) {
  Groups groups;
  LoadGroups(block, groups);
  for (size_t group = 0; group < 8; group += 2, codes += 32, out += 64) {
    const Scales scale0 = groups.At(group), minimum0 = groups.At(8 + group);
    const Scales scale1 = groups.At(group + 1), minimum1 = groups.At(9 + group);
#pragma GCC unroll 8
    for (size_t i = 0; i < 32; i += kBlockLanes) {
      const Codes bytes = LoadCodes(codes + i);
      Put(code(i, group, Low4(bytes)), scale0, minimum0, out + i);
      Put(code(i, group + 1, hn::ShiftRight<4>(bytes)), scale1, minimum1, out + 32 + i);
    }
  }
}

HWY_INLINE void DecodeBlock(Q4_K, const u8_t* block, float* out) {
  DecodeNibbles(
      block, block + Q4_K::kCodesAt, [](size_t, size_t, Codes q) { return q; }, out);
}

HWY_INLINE void DecodeBlock(Q5_K, const u8_t* block, float* out) {
  const CodeTag d;
  const auto with_fifth = [&](size_t i, size_t group, Codes q) {
    const auto given = hn::TestBit(LoadCodes(block + Q5_K::kHighBitsAt + i), hn::Set(d, 1 << group));
    return hn::Or(q, hn::IfThenElseZero(given, hn::Set(d, 16)));
  };
  DecodeNibbles(block, block + Q5_K::kCodesAt, with_fifth, out);
}

HWY_INLINE void DecodeBlock(Q6_K, const u8_t* block, float* out) {
  const CodeTag d;
  const Codes high = hn::Set(d, 0x30), zero = hn::Set(d, Q6_K::kZero);
  Groups groups;
  ScaleGroups(
      F16At(block + Q6_K::kScaleAt), [&](size_t i) { return LoadCodes<int8_t>(block + Q6_K::kScalesAt + i); },
      groups.values);
  for (size_t part = 0; part < 2; ++part) {
#pragma GCC unroll 8
    for (size_t i = 0; i < 32; i += kBlockLanes) {
      const Codes low0 = LoadCodes(block + Q6_K::kCodesAt + part * 64 + i);
      const Codes low1 = LoadCodes(block + Q6_K::kCodesAt + part * 64 + 32 + i);
      const Codes bits = LoadCodes(block + Q6_K::kHighBitsAt + part * 32 + i);
      const auto put = [&](size_t at, Codes low, Codes upper) {
        const Codes q = hn::Sub(hn::Or(low, hn::And(upper, high)), zero);
        Put(q, groups.At((part * 128 + at) / 16), out + part * 128 + at);
      };
      put(i, Low4(low0), hn::ShiftLeft<4>(bits));
      put(32 + i, Low4(low1), hn::ShiftLeft<2>(bits));
      put(64 + i, hn::ShiftRight<4>(low0), bits);
      put(96 + i, hn::ShiftRight<4>(low1), hn::ShiftRight<2>(bits));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
