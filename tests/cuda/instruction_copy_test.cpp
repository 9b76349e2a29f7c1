// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, cp.async, barriers and bulk copies, byte by byte. Tensor copies: instruction_tensor_test.cpp.
#include <random>

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

}  // namespace
}  // namespace fovea::cuda
