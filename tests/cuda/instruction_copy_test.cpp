// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, cp.async, barriers and the copies of the TMA unit, byte by byte.
#include <algorithm>
#include <ostream>
#include <random>
#include <utility>

#include "backend/cuda/tensor_map.h"
#include "cuda/instructions.h"

namespace fovea::cuda {
namespace {

class InstructionCopy : public OnCard {
 protected:
  std::vector<u32_t> random_words(size_t count) {
    std::vector<u32_t> words(count);
    for (u32_t& word : words) word = static_cast<u32_t>(random_());
    return words;
  }
  std::vector<u8_t> random_bytes(size_t count) {
    std::vector<u8_t> bytes(count);
    for (u8_t& byte : bytes) byte = static_cast<u8_t>(random_());
    return bytes;
  }
  std::mt19937 random_{3};
};

// Element (row, column) of matrix i in [4][8][4] words of two.
u32_t element(const std::vector<u32_t>& words, int i, int row, int column) {
  return words[static_cast<size_t>((i * 8 + row) * 4 + column / 2)] >> (column % 2 * 16) & 0xFFFF;
}

TEST_F(InstructionCopy, LdmatrixGivesEachLaneItsPair) {
  SKIP_BELOW(75);
  const KernelUse use = load("ldmatrix", "ldmatrix");
  const std::vector<u32_t> in = random_words(128);
  const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(14 * 32));
  run(use, {.block = {32}}, cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>()});
  const std::vector<u32_t> out = download<u32_t>(*out_on, 14 * 32);
  const int matrix_of[7] = {0, 0, 1, 0, 1, 2, 3};
  for (int i = 0; i < 14; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, c = lane % 4, matrix = matrix_of[i % 7];
      const u32_t plain = element(in, matrix, g, 2 * c) | element(in, matrix, g, 2 * c + 1) << 16;
      const u32_t transposed = element(in, matrix, 2 * c, g) | element(in, matrix, 2 * c + 1, g) << 16;
      ASSERT_EQ(out[static_cast<size_t>(i * 32 + lane)], i < 7 ? plain : transposed)
          << "register " << i << " lane " << lane;
    }
  }
}

TEST_F(InstructionCopy, StmatrixPutsEachLanesPair) {
  SKIP_BELOW(90);
  const KernelUse use = load("stmatrix", "stmatrix");
  const std::vector<u32_t> in = random_words(128);
  const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(6 * 32 * 12));
  run(use, {.block = {32}}, cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>()});
  const std::vector<u32_t> out = download<u32_t>(*out_on, 6 * 32 * 12);
  const int count_of[3] = {1, 2, 4};
  for (int form = 0; form < 6; ++form) {
    for (int row = 0; row < 32; ++row) {
      for (int word = 0; word < 12; ++word) {
        u32_t want = 0xFFFFFFFF;
        if (row / 8 < count_of[form % 3] && word < 4) {
          const auto value = [&](int column) {  // of register row / 8
            const int r = form < 3 ? row % 8 : column, c = form < 3 ? column : row % 8;
            return in[static_cast<size_t>(row / 8 * 32 + r * 4 + c / 2)] >> (c % 2 * 16) & 0xFFFF;
          };
          want = value(2 * word) | value(2 * word + 1) << 16;
        }
        ASSERT_EQ(out[static_cast<size_t>((form * 32 + row) * 12 + word)], want)
            << "form " << form << " row " << row << " word " << word;
      }
    }
  }
}

TEST_F(InstructionCopy, AsyncCopiesFillWithZeros) {
  SKIP_BELOW(80);
  const KernelUse use = load("copy_async", "copy_async");
  const std::vector<u8_t> in = random_bytes(2048);
  const auto in_on = upload(in), out_on = upload(std::vector<u8_t>(3 * 2048));
  run(use, {.block = {64}}, cuda_test::BytesArgs{.in = in_on->as<u8_t>(), .out = out_on->as<u8_t>()});
  const std::vector<u8_t> out = download<u8_t>(*out_on, 3 * 2048);
  for (int which = 0; which < 3; ++which) {
    const int size = 4 << which;
    for (int i = 0; i < 2048; ++i) {
      const int t = i / 16 % 64, byte = i % 16;
      const u8_t want = byte < t % (size + 1) ? in[static_cast<size_t>(i)] : byte < size ? 0 : 0xAA;
      ASSERT_EQ(out[static_cast<size_t>(which * 2048 + i)], want)
          << "copy of " << size << " thread " << t << " byte " << byte;
    }
  }
}

TEST_F(InstructionCopy, BarrierPhasesAlternate) {
  SKIP_BELOW(80);
  const KernelUse use = load("mbarrier", "mbarrier_phases");
  const std::vector<u32_t> in = random_words(640);
  const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(644, 77));
  run(use, {.block = {64}}, cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>()});
  const std::vector<u32_t> out = download<u32_t>(*out_on, 644);
  for (int i = 0; i < 640; ++i) {
    ASSERT_EQ(out[static_cast<size_t>(i)], in[static_cast<size_t>(i / 64 * 64 + (i + 1) % 64)]) << i;
  }
  EXPECT_EQ(out[640], 1u) << "the phase before a new barrier's first is over";
  EXPECT_EQ(out[641], 0u) << "its first is not";
  EXPECT_EQ(out[642], 0u) << "with one arrival missing it is not";
  EXPECT_EQ(out[643], 1u);
}

TEST_F(InstructionCopy, ABarrierWaitsForAsyncCopies) {
  SKIP_BELOW(80);
  const KernelUse use = load("mbarrier", "mbarrier_after_copies");
  const std::vector<u32_t> in = random_words(256);
  const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(256));
  run(use, {.block = {64}}, cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>()});
  EXPECT_EQ(download<u32_t>(*out_on, 256), in);
}

TEST_F(InstructionCopy, BulkCopiesBothWays) {
  SKIP_BELOW(90);
  const KernelUse use = load("bulk", "bulk_copy", {{"rank", 2}});
  const std::vector<u8_t> in = random_bytes(4096);
  const auto in_on = upload(in);
  for (const size_t n : {0, 16, 32, 48, 1040, 4096}) {
    const auto out_on = upload(std::vector<u8_t>(8195, 0x55));
    run(use, {.block = {32}},
        cuda_test::BytesArgs{.in = in_on->as<u8_t>(), .out = out_on->as<u8_t>(), .n = static_cast<i64_t>(n)});
    const std::vector<u8_t> out = download<u8_t>(*out_on, 8195);
    for (size_t i = 0; i < 4096; ++i) {
      ASSERT_EQ(out[i], i < n ? in[i] : 0xAA) << n << " bytes: loaded byte " << i;
      ASSERT_EQ(out[4096 + i], i < n ? in[i] : 0x55) << n << " bytes: stored byte " << i;
    }
    EXPECT_EQ(out[8192], 0) << "over before the loads";
    EXPECT_EQ(out[8193], 1) << "not over after them";
    EXPECT_EQ(out[8194], 0) << "the next phase is over too";
  }
}

// A tensor, a box, and where boxes are copied: the first coordinates are multiples of 16 bytes.
struct TensorCase {
  const char* name;
  TensorMapSpec spec;
  std::vector<std::vector<i32_t>> at;
};

// Walks the box: calls visit(offset in the box, offset in the tensor or -1).
template <class Visit>
void walk_box(const TensorMapSpec& spec, const std::vector<i32_t>& at, Visit visit) {
  int64_t count = 1;
  for (int i = 0; i < spec.rank; ++i) count *= spec.box[i];
  for (int64_t e = 0; e < count; ++e) {
    int64_t rest = e, offset = 0;
    bool inside = true;
    for (int i = 0; i < spec.rank; ++i) {
      const int64_t index = at[static_cast<size_t>(i)] + rest % spec.box[i];
      rest /= spec.box[i];
      inside = inside && index >= 0 && index < spec.sizes[i];
      offset += index * (i == 0 ? spec.element_bytes : spec.strides[i]);
    }
    visit(e * spec.element_bytes, inside ? offset : -1);
  }
}

std::vector<TensorCase> tensor_cases() {
  std::vector<TensorCase> cases;
  const std::vector<std::vector<i32_t>> plane = {{0, 0}, {16, 8}, {-16, -2}, {32, 9}, {112, 3}, {16, -40}};
  const char* const names[] = {"Bytes1", "Bytes2", "Bytes4", "Bytes8"};
  for (int i = 0; i < 4; ++i) {
    const int element = 1 << i, piece = 16 / element;
    cases.push_back(
        {names[i],
         {.element_bytes = element, .rank = 2, .sizes = {37, 11}, .strides = {0, 48 * element}, .box = {32, 5}},
         plane});
    for (const std::vector<i32_t>& at : {std::vector<i32_t>{piece, 2}, {-piece, 7}, {3 * piece, -1}}) {
      cases.back().at.push_back(at);
    }
  }
  for (const auto& [name, swizzle] :
       {std::pair{"Span32", Swizzle::span32}, {"Span64", Swizzle::span64}, {"Span128", Swizzle::span128}}) {
    const i32_t inner = span_bytes(swizzle) / 2;
    cases.push_back({name,
                     {.rank = 2, .sizes = {70, 33}, .strides = {0, 144}, .box = {inner, 21}, .swizzle = swizzle},
                     {{0, 0}, {8, 20}, {-8, -2}, {64, 5}}});
  }
  cases.push_back({"Rank3",
                   {.rank = 3, .sizes = {21, 7, 5}, .strides = {0, 64, 512}, .box = {16, 3, 2}},
                   {{0, 0, 0}, {16, 5, 4}, {-8, -1, -1}, {8, 2, 3}}});
  cases.push_back({"Rank4",
                   {.rank = 4, .sizes = {20, 3, 4, 5}, .strides = {0, 48, 160, 720}, .box = {16, 2, 3, 2}},
                   {{0, 0, 0, 0}, {16, 2, 3, 4}, {-8, -1, 0, 1}, {8, 0, 2, -1}}});
  cases.push_back({"Rank5",
                   {.rank = 5, .sizes = {17, 3, 2, 3, 4}, .strides = {0, 48, 144, 304, 912}, .box = {16, 2, 2, 2, 3}},
                   {{0, 0, 0, 0, 0}, {8, 2, 1, 2, 2}, {-8, -1, -1, 0, 1}, {16, 1, 0, 1, -1}}});
  // Page by page, as a paged cache is read: dims (d, heads, tokens of the page, pages).
  cases.push_back({"Pages",
                   {.rank = 4,
                    .sizes = {64, 2, 16, 3},
                    .strides = {0, 128, 256, 4096},
                    .box = {64, 1, 16, 1},
                    .swizzle = Swizzle::span128},
                   {{0, 1, 0, 2}, {0, 0, 4, 1}}});
  return cases;
}

void PrintTo(const TensorCase& test, std::ostream* out) {
  *out << "rank " << test.spec.rank << ", " << test.spec.element_bytes << " bytes, span "
       << span_bytes(test.spec.swizzle);
}

class InstructionTensorCopy : public InstructionCopy, public testing::WithParamInterface<TensorCase> {};

TEST_P(InstructionTensorCopy, FillsWithZerosAndWritesOnlyInside) {
  SKIP_BELOW(90);
  TensorMapSpec spec = GetParam().spec;
  const KernelUse use = load("bulk", "tensor_copy", {{"rank", spec.rank}});
  int64_t bytes = spec.sizes[0] * spec.element_bytes, box_bytes = spec.element_bytes;
  for (int i = 0; i < spec.rank; ++i) {
    if (i > 0) bytes += (spec.sizes[i] - 1) * spec.strides[i];
    box_bytes *= spec.box[i];
  }
  const std::vector<u8_t> from = random_bytes(static_cast<size_t>(bytes));
  const auto from_on = upload(from);
  for (const std::vector<i32_t>& at : GetParam().at) {
    const std::string place = "at " + testing::PrintToString(at);
    SCOPED_TRACE(place);
    ASSERT_EQ(at[0] * spec.element_bytes % 16, 0) << "the unit would end the context";
    const auto to_on = upload(std::vector<u8_t>(static_cast<size_t>(bytes), 0xEE));
    const auto box_on = upload(std::vector<u8_t>(static_cast<size_t>(box_bytes), 0x55));
    cuda_test::TensorCopyArgs args;
    spec.base = from_on->as<u8_t>();
    Status status = encode_tensor_map(driver(), spec, args.from);
    ASSERT_TRUE(status.ok()) << status.message();
    spec.base = to_on->as<u8_t>();
    status = encode_tensor_map(driver(), spec, args.to);
    ASSERT_TRUE(status.ok()) << status.message();
    std::copy(at.begin(), at.end(), args.at);
    args.box = box_on->as<u8_t>();
    args.box_bytes = static_cast<i32_t>(box_bytes);
    run(use, {.block = {32}, .smem_bytes = static_cast<unsigned>(box_bytes) + 1024}, args, place);
    const std::vector<u8_t> box = download<u8_t>(*box_on, static_cast<size_t>(box_bytes));
    const std::vector<u8_t> to = download<u8_t>(*to_on, static_cast<size_t>(bytes));
    std::vector<u8_t> want_to(static_cast<size_t>(bytes), 0xEE), want_box(box.size());
    walk_box(spec, at, [&](int64_t in_box, int64_t in_tensor) {
      for (int64_t byte = 0; byte < spec.element_bytes; ++byte) {
        const u8_t want = in_tensor < 0 ? 0 : from[static_cast<size_t>(in_tensor + byte)];
        want_box[swizzled(spec.swizzle, static_cast<u32_t>(in_box + byte))] = want;
        if (in_tensor >= 0) want_to[static_cast<size_t>(in_tensor + byte)] = want;
      }
    });
    const auto expect_equal = [](const char* what, const std::vector<u8_t>& got, const std::vector<u8_t>& want) {
      const auto first = std::mismatch(got.begin(), got.end(), want.begin());
      EXPECT_TRUE(first.first == got.end())
          << what << ": byte " << first.first - got.begin() << " of " << got.size() << " is "
          << static_cast<int>(*first.first) << ", not " << static_cast<int>(*first.second);
    };
    expect_equal("loaded", box, want_box);
    expect_equal("stored", to, want_to);
  }
}

INSTANTIATE_TEST_SUITE_P(All, InstructionTensorCopy, testing::ValuesIn(tensor_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(TensorMapSpec, WhatTheUnitCannotDescribeIsNamed) {
  alignas(16) static char memory[64];
  const TensorMapSpec good{
      .base = memory, .rank = 2, .sizes = {64, 8}, .strides = {0, 128}, .box = {64, 8}, .swizzle = Swizzle::span128};
  EXPECT_TRUE(check_tensor_map(good).ok());
  const auto refused = [&](const char* argument, const auto& change) {
    TensorMapSpec spec = good;
    change(spec);
    const Status status = check_tensor_map(spec);
    EXPECT_EQ(status.code(), FOVEA_INVALID_VALUE) << argument;
    EXPECT_TRUE(status.message().starts_with(argument)) << status.message();
  };
  refused("rank is 1", [](TensorMapSpec& s) { s.rank = 1; });
  refused("rank is 6", [](TensorMapSpec& s) { s.rank = 6; });
  refused("element_bytes is 3", [](TensorMapSpec& s) { s.element_bytes = 3; });
  refused("base is ", [](TensorMapSpec& s) { s.base = memory + 8; });
  refused("base is 0", [](TensorMapSpec& s) { s.base = nullptr; });
  refused("sizes[1] is 0", [](TensorMapSpec& s) { s.sizes[1] = 0; });
  refused("sizes[0] is 4294967296", [](TensorMapSpec& s) { s.sizes[0] = int64_t{1} << 32; });
  refused("strides[1] is 136", [](TensorMapSpec& s) { s.strides[1] = 136; });
  refused("strides[1] is -128", [](TensorMapSpec& s) { s.strides[1] = -128; });
  refused("strides[1] is 1099511627776", [](TensorMapSpec& s) { s.strides[1] = int64_t{1} << 40; });
  refused("box[1] is 257", [](TensorMapSpec& s) { s.box[1] = 257; });
  refused("box[0] is 0", [](TensorMapSpec& s) { s.box[0] = 0; });
  refused("box[0] is 60: must be a multiple of 16 bytes", [](TensorMapSpec& s) { s.box[0] = 60; });
  refused("box[0] is 72: must be at most the swizzle's 128 bytes", [](TensorMapSpec& s) { s.box[0] = 72; });
}

}  // namespace
}  // namespace fovea::cuda
