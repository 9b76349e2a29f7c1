// SPDX-License-Identifier: Apache-2.0
// Registers that move between warpgroups, clusters, and early launches.
#include <random>

#include "cuda/instructions.h"

namespace fovea::cuda {
namespace {

class InstructionLaunch : public OnCard {
 protected:
  std::vector<u32_t> random_words(size_t count) {
    std::mt19937 random(4);
    std::vector<u32_t> words(count);
    for (u32_t& word : words) word = static_cast<u32_t>(random());
    return words;
  }
};

TEST_F(InstructionLaunch, RegistersMoveBetweenWarpgroups) {
  SKIP_BELOW(90);
  const KernelUse use = load("registers", "registers");
  const Kernel& kernel = *static_cast<const Kernel*>(use.loaded);
  // Fewer would make the increase wait for ever.
  ASSERT_GE(kernel.registers * 3, 40 + 2 * 232);
  EXPECT_EQ(kernel.local_bytes, 0);
  const std::vector<u32_t> in = random_words(256);
  const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(256));
  run(use, {.grid = {2}, .block = {384}}, cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>()});
  const std::vector<u32_t> out = download<u32_t>(*out_on, 256);
  for (size_t t = 0; t < 256; ++t) {
    std::vector<u32_t> values = {in[t]};
    for (u32_t i = 1; i < 200; ++i) values.push_back(values.back() * 3 + i);
    u32_t sum = 0;
    for (int i = 199; i >= 0; --i) sum = sum * 5 + values[static_cast<size_t>(i)];
    ASSERT_EQ(out[t], sum) << t;
  }
}

TEST_F(InstructionLaunch, BlocksOfAClusterReachEachOther) {
  SKIP_BELOW(90);
  const KernelUse use = load("cluster", "cluster");
  for (const unsigned blocks : {1u, 2u, 4u, 8u}) {
    const unsigned grid = 3 * blocks;
    const std::vector<u32_t> in = random_words(grid * 32);
    const auto in_on = upload(in), out_on = upload(std::vector<u32_t>(grid * 128));
    run(use, {.grid = {grid}, .block = {32}, .cluster = {blocks}},
        cuda_test::WordsArgs{.in = in_on->as<u32_t>(), .out = out_on->as<u32_t>()});
    const std::vector<u32_t> out = download<u32_t>(*out_on, grid * 128);
    for (unsigned block = 0; block < grid; ++block) {
      const unsigned first = block / blocks * blocks, rank = block % blocks;
      const auto of = [&](unsigned other, unsigned t) { return in[(first + other % blocks) * 32 + t]; };
      for (unsigned t = 0; t < 32; ++t) {
        const u32_t* const row = &out[block * 128];
        ASSERT_EQ(row[t], of(rank + 1, t)) << blocks << " blocks: read, block " << block;
        ASSERT_EQ(row[32 + t], of(rank + blocks - 1, t) + 1) << blocks << " blocks: written, block " << block;
        ASSERT_EQ(row[64 + t], t % 3 == 0   ? rank
                               : t % 3 == 1 ? blocks
                                            : block / blocks)
            << blocks << " blocks, block " << block;
        ASSERT_EQ(row[96 + t], of(rank + 2, t) + 2) << blocks << " blocks: by barrier, block " << block;
      }
    }
  }
}

TEST_F(InstructionLaunch, TheLastBlockSeesWhatTheOthersWrote) {
  const KernelUse use = load("atomic", "last_block_sums");
  for (const u32_t blocks : {1u, 2u, 131u, 4000u}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const std::vector<u32_t> words = random_words(blocks * 128);
      std::vector<u32_t> want((blocks + 2) * 128, 0);
      for (u32_t i = 0; i < blocks * 128; ++i) {
        want[i] = 3 * words[i] + 1;
        want[blocks * 128 + i % 128] += want[i];
      }
      want[(blocks + 1) * 128] = blocks;
      const auto in = upload(words), out = upload(std::vector<u32_t>(want.size(), 0));
      run(use, {.grid = {blocks}, .block = {128}},
          cuda_test::WordsArgs{.in = in->as<u32_t>(), .out = out->as<u32_t>()});
      ASSERT_EQ(download<u32_t>(*out, want.size()), want) << blocks << " blocks";
    }
  }
}

TEST_F(InstructionLaunch, AChainOfEarlyLaunchesKeepsItsOrder) {
  SKIP_BELOW(90);
  const KernelUse use = load("dependent", "dependent");
  for (const bool early : {true, false}) {
    std::vector<u32_t> words = random_words(64 * 128);
    const auto words_on = upload(words);
    for (u32_t link = 0; link < 40; ++link) {
      start(use, {.grid = {64}, .block = {128}, .early = early},
            cuda_test::WordsArgs{.in = words_on->as<u32_t>(), .out = words_on->as<u32_t>(), .n = link});
      for (u32_t& word : words) word = 3 * word + link;
    }
    wait(use);
    EXPECT_EQ(download<u32_t>(*words_on, words.size()), words) << (early ? "early" : "one after the other");
  }
}

}  // namespace
}  // namespace fovea::cuda
