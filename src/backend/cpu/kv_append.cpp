// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/kv_append.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/context.h"
#include "backend/cpu/positions.h"

namespace fovea::cpu {

namespace {

// Positions of every token that needs them, and the first slot past the pool (-1: none).
Status check_tokens(const KvAppendArgs& args, i64_t& past) {
  past = -1;
  for (i64_t t = 0; t < args.spec.tokens; ++t) {
    KvSlot slot;
    const bool stored = append_slot(args, t, slot);
    if (!stored && past < 0 && index_at(args.slot_mapping, t) >= 0) past = t;
    if (args.spec.rotary.rotary_dim && (stored || args.q.given())) {
      FOVEA_TRY(check_position("rope", args.spec.rotary, args.rotary, t));
    }
  }
  return {};
}

}  // namespace

Status kv_append(BackendContext& context, const KvAppendPlan& plan, const KvAppendArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  const KvAppendSpec& s = args.spec;
  i64_t past = -1;
  FOVEA_TRY(check_tokens(args, past));
  if (past >= 0) FOVEA_TRY(report(exec, slot_past_pool(args, past, index_at(args.slot_mapping, past))));
  const i64_t kv_size = i64_t{s.kv.heads} * (i64_t{s.kv.d_k} + s.kv.d_v);
  const i64_t token_size = kv_size + s.q_heads * s.d_q;
  const i64_t block = std::max<i64_t>(1, 16384 / token_size);  // tokens per task: enough work to hand out
  std::atomic<i64_t> bad{0};
  c.parallel_for((s.tokens + block - 1) / block, [&](i64_t i) {
    bad += append_tokens(c.isa, args, plan.table, i * block, std::min(s.tokens, (i + 1) * block));
  });
  if (bad == 0) return {};
  return report(exec, vectors_not_finite(bad));
}

}  // namespace fovea::cpu
