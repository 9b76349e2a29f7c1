// SPDX-License-Identifier: Apache-2.0
// Wrong calls: each is an error that names the argument, before anything is written.
#include <algorithm>
#include <string>

#include "conformance/attention_mistakes.h"
#include "conformance/attention_random.h"
#include "support/check.h"

namespace fovea::test {
namespace {

// A device looks at values only in a checked call. In others it cuts lengths to the memory there is: nothing outside is
// touched (the zones around the mirrored memory), and the status word may say so.
void expect_survived(const Backend& backend, Wrong& w) {
  uint32_t status = 0;
  Exec exec;
  exec.status = &status;
  const Outcome result = run(backend, w.p, exec);
  EXPECT_TRUE(result || result.refused) << backend.name << ": " << result.message;
  EXPECT_TRUE(status == FOVEA_OK || status == FOVEA_INVALID_VALUE) << backend.name << ": status " << status;
}

// Every way in gives the same refusal and leaves the outputs alone. FOVEA_OK as code: any error will do. A plan of a
// device may have a reason of its own to refuse.
void expect_refused(Wrong& w, const Mistake& mistake) {
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    const bool checked = backend.cuda && mistake.by_value;
    if (checked) expect_survived(backend, w);
    if (backend.kernel != nullptr || backend.without_device) continue;
    w.problem.poison_outputs();
    Exec exec;
    exec.flags = checked ? FOVEA_EXEC_CHECK : 0;
    const Outcome result = run(backend, w.p, exec);
    if (result.refused && !names(result.message, mistake.words.empty() ? "" : mistake.words[0])) continue;
    EXPECT_NE(result.code, FOVEA_OK);
    EXPECT_NE(result.code, FOVEA_INTERNAL);
    if (mistake.code != FOVEA_OK) {
      EXPECT_EQ(result.code, mistake.code) << result.message;
    }
    for (const char* word : mistake.words) {
      EXPECT_TRUE(names(result.message, word));
    }
    EXPECT_TRUE(w.problem.outputs_untouched()) << "wrote before refusing";
    if (checked) continue;
    const Outcome at_once = call(backend, w.p, {.scratch = 1 << 20, .sync = 1 << 16});
    EXPECT_EQ(at_once.code, result.code) << at_once.message;
    EXPECT_TRUE(w.problem.outputs_untouched()) << "wrote before refusing";
    // What is known without reading tensors is known to `supports`, with the same words.
    const TestPlan plan(backend, w.p);
    const Support support = supports(backend, w.p);
    EXPECT_EQ(support.answer == FOVEA_SUPPORT_YES, plan.outcome().code == FOVEA_OK);
    if (!plan.outcome()) {
      EXPECT_EQ(support.reason, result.message);
    }
  }
}

TEST(AttentionErrors, EachMistakeIsNamed) {
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.name);
    Rng rng = test_rng();
    AttentionProblem problem(base_case(mistake.base), rng);
    Wrong w{problem, problem.params, problem.kvs[0], {}};
    mistake.make(w);
    expect_refused(w, mistake);
  }
}

// The same mistakes in random calls.
TEST(AttentionFuzz, RandomWrongCalls) {
  std::vector<const Mistake*> general;
  for (const Mistake& m : mistakes()) {
    if (m.base == Base::any) general.push_back(&m);
  }
  const int64_t cases = env_number("FOVEA_FUZZ_CASES", static_cast<int64_t>(300 * effort()));
  for (int64_t i = 0; i < cases; ++i) {
    Rng rng = test_rng(static_cast<uint64_t>(i));
    AttentionCase c = random_attention(rng);
    const Mistake& mistake = *rng.pick(general);
    SCOPED_TRACE(std::string(mistake.name) + " in case " + std::to_string(i) + ": " + c.text() + "; " + seed_note());
    AttentionProblem problem(c, rng);
    Wrong w{problem, problem.params, problem.kvs[0], {}};
    mistake.make(w);
    Mistake any = mistake;  // a second reason to refuse may come first: the value is then not in the message
    if (any.words.size() > 1) any.words.resize(1);
    expect_refused(w, any);
    if (::testing::Test::HasFailure()) return;
  }
}

// The wanted result of a ragged problem whose sequence b does not see its keys [first, last).
oracle::Attention64 without_keys(const AttentionProblem& problem, int64_t b, int64_t first, int64_t last) {
  fovea_attention_params p = problem.params;
  const int64_t batch = oracle::batch_of(p);
  int64_t longest = 0;
  std::vector<int64_t> lens;
  for (int64_t i = 0; i < batch; ++i) {
    lens.push_back(oracle::sequence_of(p, i).len);
    longest = std::max(longest, lens.back());
  }
  const int64_t words = (longest + 31) / 32;
  const TensorBox mask_lens = indices(lens), bits(FOVEA_U32, {p.q.shape[0], words});
  bits.fill([](int64_t) { return 4294967295.0; });
  const oracle::Sequence s = oracle::sequence_of(p, b);
  for (int64_t row = s.first_row; row < s.first_row + s.n; ++row) {
    for (int64_t j = first; j < last; ++j) {
      *static_cast<uint32_t*>(bits.at(row * words + j / 32)) &= ~(uint32_t{1} << j % 32);
    }
  }
  p.mask_bits = bits;
  p.mask_lens = mask_lens;
  return oracle::attention64(p);
}

// B07: an id outside the pool that a visible key needs is named with its request and position; others are never read.
TEST(BugCorpus, B07_BadPageIds) {
  Rng rng = test_rng();
  for (bool of_v : {false, true}) {
    constexpr int64_t kFirstOutside = 0;  // stands for the number of pages
    for (int64_t bad : {int64_t{-1}, kFirstOutside, int64_t{77}, int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
      AttentionCase c = simple_case({2, 3}, {20, 33}, 4, 2, 32, 32);
      c.kv[0].page_size = 16;
      c.kv[0].v_table = of_v;
      c.kv[0].spare_pages = 0;
      c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
      AttentionProblem problem(c, rng);
      const oracle::Attention64 masked = without_keys(problem, 1, 16, 32);
      const int64_t id = bad == kFirstOutside ? problem.kvs[0].pages : bad;
      const TensorBox& table = of_v ? problem.caches[0]->v_page_table : problem.caches[0]->page_table;
      table.set(3 + 1, static_cast<double>(id));  // request 1, keys 16 to 31
      const std::string number = std::to_string(id);
      for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
        for (uint32_t flags : {0u, static_cast<uint32_t>(FOVEA_EXEC_CHECK)}) {
          problem.poison_outputs();
          uint32_t status = 0;
          Exec exec;
          exec.flags = flags;
          exec.status = &status;
          const Outcome result = run(backend, problem.params, exec);
          if (result.refused) continue;
          if (backend.cuda && flags == 0) {  // the page counts as masked, and the status word says that there was one
            EXPECT_TRUE(result) << result.message;
            EXPECT_TRUE(within(problem.out, masked.out, masked.out_bound)) << backend.name << " " << id;
            EXPECT_TRUE(within(problem.lse, masked.lse, masked.lse_bound)) << backend.name << " " << id;
            EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE)) << backend.name << " " << id;
            continue;
          }
          EXPECT_EQ(result.code, FOVEA_INVALID_VALUE) << id;
          for (const std::string& word : {std::string(of_v ? "v_page_table" : "page_table"), number,
                                          std::string("request 1"), std::string("position 16")}) {
            EXPECT_NE(result.message.find(word), std::string::npos) << word << " is not in: " << result.message;
          }
          EXPECT_TRUE(problem.outputs_untouched());
        }
      }
    }
  }
}

TEST(AttentionErrors, WorkspaceTooSmall) {
  Rng rng = test_rng();
  AttentionCase c = simple_case({1}, {2000}, 2, 1, 64, 64);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.options.split_size = 64;
  AttentionProblem problem(c, rng);
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    const TestPlan plan(backend, problem.params);
    if (plan.outcome().refused || backend.without_device) continue;
    problem.poison_outputs();
    const auto expect_named = [&](const char* name, const TestPlan::Change& change) {
      const Outcome result = plan.run(problem.params, {}, kPoison, change);
      EXPECT_NE(result.message.find(name), std::string::npos) << result.message;
      EXPECT_TRUE(problem.outputs_untouched());
    };
    if (plan.workspace().scratch > 0) {
      expect_named("scratch", [](Exec& exec) { exec.scratch_bytes -= 1; });
      expect_named("scratch", [](Exec& exec) { exec.scratch = nullptr; });
    }
    if (plan.workspace().sync > 0) {
      expect_named("sync", [](Exec& exec) { exec.sync_bytes -= 1; });
      expect_named("sync", [](Exec& exec) { exec.sync = nullptr; });
    }
  }
}

// G09: an fp8 cache without scales is no silent 1.0. D29's relatives: a plan runs nothing but its own shape.
TEST(BugCorpus, G09_Fp8WithoutScales) {
  Rng rng = test_rng();
  AttentionProblem problem(base_case(Base::fp8), rng);
  Wrong w{problem, problem.params, problem.kvs[0], {}};
  w.kv.k.scale_kind = FOVEA_SCALE_NONE;
  w.kv.k.scale_dtype = 0;
  w.kv.k.scale = {};
  expect_refused(w, {"", Base::fp8, nullptr, {"scale_kind"}, FOVEA_OK});
}

// A plan that is run with other options refuses, or does what is asked; it never does what was planned instead.
TEST(AttentionErrors, PlansDoNotServeOtherOptions) {
  Rng rng = test_rng();
  AttentionCase c = base_case(Base::ragged);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.poison = false;
  AttentionProblem problem(c, rng);
  using Change = void (*)(fovea_attention_params&, fovea_kv&);
  const Change changes[] = {
      [](fovea_attention_params& p, fovea_kv&) { p.mask = FOVEA_MASK_NONE; },
      [](fovea_attention_params& p, fovea_kv&) { p.softcap = 5; },
      [](fovea_attention_params& p, fovea_kv&) { p.scale = 0.7f; },
      [](fovea_attention_params& p, fovea_kv&) { p.split_size = 16; },
      [](fovea_attention_params& p, fovea_kv&) { p.lse = {}; },
      [](fovea_attention_params& p, fovea_kv&) { p.out.dtype = FOVEA_F16; },
      [](fovea_attention_params&, fovea_kv& kv) { kv.heads = 1; },
      [](fovea_attention_params&, fovea_kv& kv) { kv.page_size = 8; },
  };
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    const TestPlan plan(backend, problem.params);
    if (plan.outcome().refused) continue;
    for (const Change& change : changes) {
      fovea_attention_params p = problem.params;
      fovea_kv kv = problem.kvs[0];
      p.kv = &kv;
      change(p, kv);
      problem.poison_outputs();
      const Outcome result = plan.run(p);
      if (result.refused) continue;
      if (result) {
        const oracle::Attention64 want = oracle::attention64(p);
        EXPECT_TRUE(within(p.out, want.out, want.out_bound)) << "change " << &change - changes;
      } else {
        EXPECT_EQ(result.code, FOVEA_INVALID_VALUE) << result.message;
        EXPECT_TRUE(problem.outputs_untouched());
      }
    }
  }
}

}  // namespace
}  // namespace fovea::test
