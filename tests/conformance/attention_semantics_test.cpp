// SPDX-License-Identifier: Apache-2.0
// What attention means: masks, alignment, empty rows, softcap, ALiBi, sinks, scales. Each option must show.
#include <cmath>
#include <limits>

#include "oracle/numbers.h"
#include "support/attention_cases.h"
#include "support/check.h"

namespace fovea::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Peaked logits of a small GQA problem: two sequences, several queries each.
AttentionCase peaked(int32_t mask = FOVEA_MASK_CAUSAL) {
  AttentionCase c = simple_case({5, 3}, {70, 41}, 4, 2, 64, 48);
  c.options.mask = mask;
  c.q_values = Values::peaked;
  return c;
}

// Zero Q and K: every row is the mean of the values it sees, and V tells which: token t has t in dim 0, t^2 in dim 1.
struct MaskTable {
  AttentionProblem problem;
  MaskTable(AttentionCase c, Rng& rng) : problem(prepare(c), rng) {
    for (size_t s = 0; s < c.kv.size(); ++s) {
      for (int64_t b = 0; b < static_cast<int64_t>(c.q_lens.size()); ++b) {
        for (int64_t t = 0; t < c.kv[s].lens[static_cast<size_t>(b)]; ++t) {
          std::vector<double> v(static_cast<size_t>(c.kv[s].heads * c.kv[s].d_v), 0.0);
          for (int64_t h = 0; h < c.kv[s].heads; ++h) {
            v[static_cast<size_t>(h * c.kv[s].d_v)] = static_cast<double>(t);
            v[static_cast<size_t>(h * c.kv[s].d_v + 1)] = static_cast<double>(t * t);
          }
          const std::vector<double> k(static_cast<size_t>(c.kv[s].heads * c.kv[s].d_k), 0.0);
          problem.caches[s]->write(b, t, k, v, rng);
        }
      }
    }
  }
  static AttentionCase prepare(AttentionCase c) {
    for (KvSpec& s : c.kv) s.k.codec = s.v.codec = FOVEA_CODEC_F16;  // holds the squares up to 2048 exactly
    c.q_values = c.k_values = Values::zero;
    c.poison = false;
    return c;
  }
  // The first and last visible key of each row, worked out by hand in the tests.
  void expect_rows(const std::vector<std::pair<int64_t, int64_t>>& rows) {
    const int64_t heads = problem.params.out.shape[1], d = problem.params.out.shape[2];
    for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
      problem.poison_outputs();
      RUN_OR_CONTINUE(run(backend, problem.params));
      for (size_t row = 0; row < rows.size(); ++row) {
        const auto [first, last] = rows[row];
        double sum = 0, squares = 0, count = 0;
        for (int64_t t = first; t <= last; ++t, ++count) {
          sum += static_cast<double>(t);
          squares += static_cast<double>(t * t);
        }
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t at = static_cast<int64_t>(row) * heads + h;
          EXPECT_NEAR(problem.out.get(at * d), count > 0 ? sum / count : 0, 1e-4) << backend.name << " row " << row;
          EXPECT_NEAR(problem.out.get(at * d + 1), count > 0 ? squares / count : 0, 1e-2)
              << backend.name << " row " << row;
          const double lse = problem.lse.get(at);
          if (count > 0) {
            EXPECT_NEAR(lse, std::log(count), 1e-6) << backend.name << " row " << row;
          } else {
            EXPECT_EQ(lse, -kInf) << backend.name << " row " << row;
          }
        }
      }
    }
  }
};

AttentionCase table_case(int64_t n, int64_t len, int32_t mask) {
  AttentionCase c = simple_case({n}, {len}, 2, 1, 16, 16);
  c.kv[0].page_size = 4;
  c.options.mask = mask;
  return c;
}

TEST(AttentionMask, NoneSeesEveryKey) {
  Rng rng = test_rng();
  MaskTable(table_case(3, 7, FOVEA_MASK_NONE), rng).expect_rows({{0, 6}, {0, 6}, {0, 6}});
}

// A17: more queries than keys are aligned at the bottom right, so the first rows are empty.
TEST(AttentionMask, CausalIsBottomRightAligned) {
  Rng rng = test_rng();
  MaskTable(table_case(3, 7, FOVEA_MASK_CAUSAL), rng).expect_rows({{0, 4}, {0, 5}, {0, 6}});
  MaskTable(table_case(5, 3, FOVEA_MASK_CAUSAL), rng).expect_rows({{0, -1}, {0, -1}, {0, 0}, {0, 1}, {0, 2}});
  MaskTable(table_case(3, 3, FOVEA_MASK_CAUSAL), rng).expect_rows({{0, 0}, {0, 1}, {0, 2}});
}

TEST(AttentionMask, WindowCountsTheQueryItself) {
  Rng rng = test_rng();
  AttentionCase c = table_case(3, 9, FOVEA_MASK_WINDOW);
  c.options.window_left = 2;
  c.options.window_right = 0;
  MaskTable(c, rng).expect_rows({{4, 6}, {5, 7}, {6, 8}});
  c.options.window_left = 0;
  MaskTable(c, rng).expect_rows({{6, 6}, {7, 7}, {8, 8}});
  c.options.window_right = 1;
  MaskTable(c, rng).expect_rows({{6, 7}, {7, 8}, {8, 8}});
  c.options.window_left = 3;
  c.options.window_right = -1;
  MaskTable(c, rng).expect_rows({{3, 8}, {4, 8}, {5, 8}});
  c.options.window_left = -1;
  c.options.window_right = 1;
  MaskTable(c, rng).expect_rows({{0, 7}, {0, 8}, {0, 8}});
  AttentionCase above = table_case(4, 2, FOVEA_MASK_WINDOW);  // positions -2, -1, 0, 1
  above.options.window_left = 0;
  above.options.window_right = 1;
  MaskTable(above, rng).expect_rows({{0, -1}, {0, 0}, {0, 1}, {1, 1}});
}

TEST(AttentionMask, ChunkIsCausalInsideItsChunk) {
  Rng rng = test_rng();
  AttentionCase c = table_case(4, 10, FOVEA_MASK_CHUNK);  // positions 6 to 9
  c.options.chunk_size = 4;
  MaskTable(c, rng).expect_rows({{4, 6}, {4, 7}, {8, 8}, {8, 9}});
  c.options.chunk_origin = 3;
  MaskTable(c, rng).expect_rows({{3, 6}, {7, 7}, {7, 8}, {7, 9}});
  c.options.chunk_origin = 9;  // chunks reach below the origin too
  MaskTable(c, rng).expect_rows({{5, 6}, {5, 7}, {5, 8}, {9, 9}});
}

TEST(AttentionMask, StartsHideTheFirstKeysAndKeepPositions) {
  Rng rng = test_rng();
  AttentionCase c = table_case(3, 9, FOVEA_MASK_CAUSAL);
  c.kv[0].starts = {5};
  MaskTable(c, rng).expect_rows({{5, 6}, {5, 7}, {5, 8}});
  c.kv[0].starts = {7};
  MaskTable(c, rng).expect_rows({{7, 6}, {7, 7}, {7, 8}});
  c.kv[0].starts = {9};
  MaskTable(c, rng).expect_rows({{9, 8}, {9, 8}, {9, 8}});
}

// Bit k of a row is key len - mask_len + k, least significant first; earlier keys are visible.
TEST(AttentionMask, PackedBitsCoverTheLastKeys) {
  Rng rng = test_rng();
  AttentionCase c = table_case(2, 40, FOVEA_MASK_NONE);
  c.mask_lens = {35};
  MaskTable table(c, rng);
  const auto set = [&](int64_t word, uint32_t bits) {
    *static_cast<uint32_t*>(table.problem.mask_bits.at(word)) = bits;
  };
  set(0, 0x1u), set(1, 0x0u);  // key 5 beside the earlier 0..4
  set(2, 0x3u), set(3, 0x0u);
  table.expect_rows({{0, 5}, {0, 6}});
  set(0, 0x0u), set(1, 0xFFFFFFF8u);  // bits beyond the mask's length mean nothing
  set(2, 0xFFFFFFFFu), set(3, 0x7u);
  table.expect_rows({{0, 4}, {0, 39}});
}

TEST(AttentionOption, EachMaskShows) {
  const auto none = [](fovea_attention_params& p) { p.mask = FOVEA_MASK_NONE; };
  check_option(peaked(FOVEA_MASK_CAUSAL), none);
  AttentionCase window = peaked(FOVEA_MASK_WINDOW);
  window.options.window_left = 9;
  check_option(window, none);
  check_option(window, [](fovea_attention_params& p) { p.window_left += 1; });
  window.options.window_right = 2;
  check_option(window, [](fovea_attention_params& p) { p.window_right += 1; });
  AttentionCase chunk = peaked(FOVEA_MASK_CHUNK);
  chunk.options.chunk_size = 16;
  check_option(chunk, [](fovea_attention_params& p) { p.mask = FOVEA_MASK_CAUSAL; });
  chunk.options.chunk_origin = 5;
  check_option(chunk, [](fovea_attention_params& p) { p.chunk_origin = 0; });
  check_option(chunk, [](fovea_attention_params& p) { p.chunk_size = 17; });
  AttentionCase bits = peaked(FOVEA_MASK_CAUSAL);
  bits.mask_lens = {37, 3};
  check_option(bits, [](fovea_attention_params& p) { p.mask_bits = {}; });
}

TEST(AttentionOption, EachTermShows) {
  AttentionCase c = peaked();
  c.options.softcap = 3;
  check_option(c, [](fovea_attention_params& p) { p.softcap = 0; });
  c = peaked();
  c.alibi = true;
  check_option(c, [](fovea_attention_params& p) { p.alibi_slopes = {}; });
  c.alibi_batch = true;
  check_option(c, [](fovea_attention_params& p) { p.alibi_slopes.stride[0] = 0; });
  c = peaked();
  c.sinks = true;
  check_option(c, [](fovea_attention_params& p) { p.sinks = {}; });
  c = peaked();
  c.options.scale = 0.05f;
  check_option(c, [](fovea_attention_params& p) { p.scale = 0; });
  check_option(c, [](fovea_attention_params& p) { p.scale *= 1.01f; });
  c.options.scale = -0.2f;
  check_option(c, [](fovea_attention_params& p) { p.scale = -p.scale; });
}

// Softcap comes before ALiBi, both before the mask: each pair in one call.
TEST(AttentionOption, TermsTogether) {
  for (int32_t mask :
       std::initializer_list<int32_t>{FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL, FOVEA_MASK_WINDOW, FOVEA_MASK_CHUNK}) {
    for (int bits = 0; bits < 32; ++bits) {
      AttentionCase c = peaked(mask);
      c.options.window_left = 20;
      c.options.chunk_size = mask == FOVEA_MASK_CHUNK ? 24 : 0;
      if (mask != FOVEA_MASK_WINDOW) c.options.window_left = -1;
      if (bits & 1) c.options.softcap = 5;
      c.alibi = bits & 2;
      c.sinks = bits & 4;
      if (bits & 8) c.mask_lens = {20, 41};
      if (bits & 16) c.options.split_size = 16;
      Rng rng = test_rng(static_cast<uint64_t>(mask * 32 + bits));
      check_attention(c, rng);
      if ((bits & 15) != 15) continue;
      check_option(c, [](fovea_attention_params& p) { p.softcap = 0; });
      check_option(c, [](fovea_attention_params& p) { p.alibi_slopes = {}; });
      check_option(c, [](fovea_attention_params& p) { p.sinks = {}; });
      check_option(c, [](fovea_attention_params& p) { p.mask_bits = {}; });
    }
  }
}

TEST(AttentionOption, E4m3ScalesShow) {
  AttentionCase c = peaked();
  c.q_dtype = FOVEA_E4M3;
  c.options.q_scale = 0.25f;
  check_option(c, [](fovea_attention_params& p) { p.q_scale = 1; });
  c = peaked();
  c.out_dtype = FOVEA_E4M3;
  c.options.out_scale = 0.03125f;
  Rng rng = test_rng();
  AttentionProblem problem(c, rng);
  ASSERT_TRUE(check_attention(problem));
  double largest = 0;  // the cast used the scale: stored values fill the type's range
  for (double x : problem.out.values()) largest = std::max(largest, std::fabs(x));
  EXPECT_GT(largest, 30);
  c.options.out_scale = 0x1p-10f;  // saturates at 448
  check_attention(c, rng);
}

TEST(AttentionEmpty, RowsWithOnlyASinkGiveItsLogit) {
  AttentionCase c = simple_case({4, 2, 3}, {0, 5, 1}, 4, 2, 32, 32);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.sinks = true;
  Rng rng = test_rng();
  AttentionProblem problem(c, rng);
  ASSERT_TRUE(check_attention(problem));
  for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(problem.lse.get(h), problem.sinks.get(h));
}

TEST(AttentionEmpty, PaddedRowsOutsideAreZeroAndMinusInf) {
  AttentionCase c = simple_case({3, 0, 2}, {9, 4, 20}, 4, 2, 32, 24);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
  c.padded = true;
  c.pad_front = 2;
  c.pad_back = 3;
  c.sinks = true;  // rows outside belong to nobody: no sink either
  Rng rng = test_rng();
  AttentionProblem problem(c, rng);
  ASSERT_TRUE(check_attention(problem));
  const oracle::Sequence first = oracle::sequence_of(problem.params, 0);
  const int64_t outside = first.first_row > 0 ? 0 : first.n;
  EXPECT_EQ(problem.lse.get(outside * 4), -kInf);
}

TEST(AttentionCall, PlansAndRunsInOneCallWithTheSameBits) {
  Rng rng = test_rng();
  AttentionCase c = peaked();
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  AttentionProblem problem(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    const TestPlan plan(backend, problem.params);
    if (plan.outcome().refused) continue;
    RUN_OR_CONTINUE(plan.run(problem.params));
    const auto first = problem.result_bits();
    problem.poison_outputs();
    RUN_OR_CONTINUE(call(backend, problem.params, plan.workspace()));
    EXPECT_EQ(first, problem.result_bits()) << backend.name;
    EXPECT_FALSE(plan.explain().empty());
  }
}

// The caller of the library's C++ face, with the workspace it offers.
TEST(AttentionCall, ServesAHostWorkspace) {
  Rng rng = test_rng();
  AttentionProblem problem(peaked(), rng);
  const Context& context = backends().front().context;
  const Plan<AttentionParams> plan = context.plan(problem.params);
  HostWorkspace workspace;
  const Result result = try_attention(context, problem.params, workspace.exec(plan));
  ASSERT_TRUE(result) << result.message;
  EXPECT_TRUE(problem.right());
}

}  // namespace
}  // namespace fovea::test
