// SPDX-License-Identifier: Apache-2.0
// A mixed set of calls, launched again and again in turn: always the same bits. FOVEA_TEST_REPEATS sets how often
// (1000). Skipped where there is no card.
#include <cstring>
#include <deque>
#include <functional>

#include "cuda/calls.h"
#include "support/attention_cases.h"
#include "support/kv_append_cases.h"

namespace fovea::test {
namespace {

using Bits = std::vector<std::byte>;

class Determinism : public OnDevices {
 protected:
  struct Member {
    std::unique_ptr<ResidentCall> call;
    std::function<Bits()> result;  // what a run has left on the host
    Bits first;
  };

  void add_attention(const AttentionCase& c) {
    Rng rng = test_rng(members_.size());
    AttentionProblem& problem = *problems_.emplace_back(std::make_unique<AttentionProblem>(c, rng));
    add(resident_calls(problem.params), [&problem] { return problem.result_bits(); });
  }
  void add(ResidentCalls calls, const std::function<Bits()>& result) {
    for (auto& call : calls) members_.push_back({std::move(call), result, {}});
  }

  std::deque<std::unique_ptr<AttentionProblem>> problems_;
  std::vector<Member> members_;
};

AttentionCase bf16_case(std::vector<int64_t> q_lens, std::vector<int64_t> kv_lens, int32_t heads, int32_t kv_heads) {
  AttentionCase c = simple_case(std::move(q_lens), std::move(kv_lens), heads, kv_heads, 128, 128);
  c.q_dtype = c.out_dtype = FOVEA_BF16;
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_BF16;
  c.options.mask = FOVEA_MASK_CAUSAL;
  return c;
}

TEST_F(Determinism, TheSameBitsEachTime) {
  add_attention(bf16_case({1, 1, 1}, {900, 33, 300}, 8, 2));  // splits, merged in the launch or after it
  add_attention(bf16_case({70, 1, 19}, {70, 200, 119}, 4, 2));
  AttentionCase fp8 = bf16_case({1, 4}, {500, 260}, 8, 1);
  fp8.kv[0].k = fp8.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_HEAD, FOVEA_F32, 0};
  fp8.sinks = true;
  add_attention(fp8);
  AttentionCase wide = bf16_case({2}, {400}, 16, 1);
  wide.kv[0].d_k = 576;
  wide.kv[0].d_v = 512;
  wide.kv[0].v_in_k = true;
  wide.kv[0].v = {};
  add_attention(wide);

  Rng rng = test_rng();
  AppendCase append;
  append.dtype = FOVEA_BF16;
  append.kv.k = append.kv.v = {FOVEA_CODEC_FP8, FOVEA_SCALE_TOKEN_HEAD, FOVEA_F32, 0};
  append.norm = append.with_rope = true;
  AppendProblem tokens(append, rng);
  add(resident_calls(tokens.params), [&] { return tokens.cache.bytes(); });

  const std::vector<int64_t> shape = {9, 4, 128}, rows = {9, 4};
  const TensorBox outs[] = {{FOVEA_BF16, shape}, {FOVEA_BF16, shape}, {FOVEA_BF16, shape}};
  const TensorBox lses[] = {{FOVEA_F32, rows}, {FOVEA_F32, rows}, {FOVEA_F32, rows}}, merged(FOVEA_BF16, shape);
  std::vector<fovea_tensor> out_views, lse_views;
  for (int i = 0; i < 3; ++i) {
    outs[i].fill([&](int64_t) { return rng.normal(); });
    lses[i].fill([&](int64_t) { return 2 * rng.normal(); });
    out_views.push_back(outs[i]);
    lse_views.push_back(lses[i]);
  }
  MergeStatesParams merge;
  merge.parts = 3;
  merge.outs = out_views.data();
  merge.lses = lse_views.data();
  merge.out = merged;
  add(resident_calls(merge), [&] { return merged.bits(); });

  ASSERT_FALSE(members_.empty());
  for (Member& m : members_) m.call->call->upload();
  const int64_t repeats = env_number("FOVEA_TEST_REPEATS", 1000);
  for (int64_t i = 0; i < repeats; ++i) {
    for (Member& m : members_) {
      ASSERT_EQ(m.call->plan.launch(*m.call->call), FOVEA_OK) << m.call->backend.name << ": " << fovea_last_error();
    }
    for (Member& m : members_) {
      expect_clean(*m.call);
      const Bits bits = m.result();
      if (i == 0) m.first = bits;
      ASSERT_EQ(bits, m.first) << m.call->backend.name << ", run " << i;
    }
  }
  std::printf("%zu calls, %lld times each\n", members_.size(), static_cast<long long>(repeats));
}

}  // namespace
}  // namespace fovea::test
