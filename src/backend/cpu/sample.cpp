// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>

#include "backend/cpu/sample_outputs.h"
#include "backend/cpu/sample_values.h"
#include "shared/philox.h"

namespace fovea::cpu {

namespace {

constexpr float kNone = -__builtin_inff();

Status check_row(const SampleArgs& a, int64_t r) {
  FOVEA_TRY(check_row_values(a, r));
  return check_mask_row(a, r);
}

// Log-probabilities of the logits as given; the likeliest are written.
LogSoftmax raw_logprobs(const Isa& isa, const SampleArgs& a, i64_t r, const SampleWorkspace& to) {
  SampleKept whole{.n = a.spec.vocab, .all = true, .max = sample_load(isa, a.logits, r, to.logits)};
  const bool empty = whole.max == kNone;
  if (!empty) whole.total = sample_total(isa, whole.n, whole.max, to);
  const LogSoftmax logprob = log_softmax(whole);
  if (a.spec.top > 0) put_top(a, r, logprob, to, empty ? 0 : sample_top(isa, whole, to, a.spec.top, false));
  return logprob;
}

// The logit of a token that was drawn from what was kept.
float kept_logit(const SampleKept& kept, const SampleWorkspace& to, i64_t token) {
  return to.logits[kept.all ? token : std::lower_bound(to.ids, to.ids + kept.n, token) - to.ids];
}

// A row that needs its logits in a workspace.
i64_t copied_row(const Isa& isa, const SampleArgs& a, i64_t r, const SampleWorkspace& to) {
  const SampleSpec& s = a.spec;
  LogSoftmax raw{};
  if (s.raw_logprobs) raw = raw_logprobs(isa, a, r, to);
  const float max = load_row(isa, a, r, r, {}, 0, to);
  const bool greedy = temperature_of(a, r) == 0, empty = max == kNone;
  const bool processed = !s.raw_logprobs && (s.logprobs || s.top > 0);
  i64_t token = greedy && !empty ? sample_best(isa, Dtype::f32, reinterpret_cast<const char*>(to.logits), s.vocab) : -1;
  SampleKept kept;
  if (!empty && (!greedy || processed)) {
    kept = sample_keep(isa, s.vocab, greedy ? SampleRule{.top_k = s.vocab} : rule_of(a, r), max, to);
    if (!greedy) token = sample_draw(isa, kept, to, uniform_of(a, r, 0, kSampleStream));
  }
  const LogSoftmax logprob = s.raw_logprobs ? raw : log_softmax(kept);
  if (s.logprobs) {
    const auto logit = [&] {
      return s.raw_logprobs ? float_at(row(a.logits, r, token), s.logits) : kept_logit(kept, to, token);
    };
    put_logprob(a, r, token < 0 ? kNone : logprob(logit()));
  }
  if (processed && s.top > 0) put_top(a, r, logprob, to, empty ? 0 : sample_top(isa, kept, to, s.top, true));
  if (s.probs) {
    if (greedy || empty)
      put_certain(a, r, token);
    else
      put_probs(a, r, kept, to);
  }
  return token;
}

}  // namespace

Status sample(BackendContext& context, const SamplePlan&, const SampleArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  const int64_t rows = args.spec.rows;
  FOVEA_TRY(check_all(c, rows, args.spec.penalties != 0, [&](int64_t r) { return check_row(args, r); }));
  std::atomic<int64_t> empty{rows};  // the first row without a number
  const bool plain = !args.spec.edits() && !args.spec.logprobs && !args.spec.probs && args.spec.top == 0;
  const auto one_row = [&](int64_t r, int64_t task) {
    const bool direct = plain && temperature_of(args, r) == 0;
    const int64_t token = direct ? sample_best(c.isa, args.spec.logits, row_or_null(args.logits, r), args.spec.vocab)
                                 : copied_row(c.isa, args, r, workspace_of(exec, task, args.spec));
    put_index(args.tokens, r, token);
    for (int64_t first = empty; token < 0 && r < first && !empty.compare_exchange_weak(first, r);) {
    }
  };
  const int64_t tasks = args.spec.copies() ? sample_tasks(rows) : rows;
  c.parallel_for(tasks, [&](int64_t task) {
    for (int64_t r = task; r < rows; r += tasks) one_row(r, task);
  });
  if (empty == rows) return {};
  return report(exec, bad_value("logits", empty, no_number(args.spec), "its token is -1"));
}

}  // namespace fovea::cpu
