// SPDX-License-Identifier: Apache-2.0
#include "ops/sample.h"

#include "ops/sample_checks.h"

namespace fovea {

namespace {

Status check_outputs(const fovea_sample_params& p, const SampleRows& rows, Place where) {
  FOVEA_TRY(check_rows("tokens", p.tokens, kIndexTypes, rows, where));
  FOVEA_TRY(check_writable("tokens", p.tokens));
  if (present(p.logprobs)) {
    FOVEA_TRY(check_rows("logprobs", p.logprobs, kF32, rows, where));
    FOVEA_TRY(check_writable("logprobs", p.logprobs));
  }
  if (present(p.top_ids)) {
    FOVEA_TRY(check_tensor("top_ids", p.top_ids, kIndexTypes, 2, 2, where));
    FOVEA_TRY(check_dim("top_ids", p.top_ids, 0, rows.rows, rows.why));
    if (p.top_ids.shape[1] > p.logits.shape[1]) {
      return invalid_value("top_ids.shape[1]", p.top_ids.shape[1],
                           "must be at most " + std::to_string(p.logits.shape[1]) + " (logits.shape[1])");
    }
    FOVEA_TRY(check_writable("top_ids", p.top_ids));
    FOVEA_TRY(check_tensor("top_logprobs", p.top_logprobs, kF32, 2, 2, where));
    FOVEA_TRY(check_same_shape("top_logprobs", p.top_logprobs, "top_ids", p.top_ids));
    FOVEA_TRY(check_writable("top_logprobs", p.top_logprobs));
  } else {
    FOVEA_TRY(check_absent("top_logprobs", p.top_logprobs, "needs top_ids"));
  }
  if (present(p.probs)) {
    FOVEA_TRY(check_tensor("probs", p.probs, kF32, 2, 2, where));
    FOVEA_TRY(check_same_shape("probs", p.probs, "logits", p.logits));
    FOVEA_TRY(check_writable("probs", p.probs));
  }
  if (p.logprobs_kind != FOVEA_LOGPROBS_RAW && p.logprobs_kind != FOVEA_LOGPROBS_PROCESSED) {
    return invalid_value("logprobs_kind", p.logprobs_kind, "must be one of enum fovea_logprobs_kind");
  }
  if (p.logprobs_kind != FOVEA_LOGPROBS_RAW && !present(p.logprobs) && !present(p.top_ids)) {
    return invalid_value("logprobs_kind", p.logprobs_kind, "has no effect without logprobs or top_ids");
  }
  return {};
}

}  // namespace

Status SampleOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_logits(p, where));
  const SampleRows rows{p.logits.shape[0], "logits.shape[0]"};
  FOVEA_TRY(check_sampling(p, rows, where, spec));
  FOVEA_TRY(check_outputs(p, rows, where));
  spec.tokens = dtype(p.tokens);
  spec.logprobs = present(p.logprobs);
  spec.raw_logprobs = (present(p.logprobs) || present(p.top_ids)) && p.logprobs_kind == FOVEA_LOGPROBS_RAW;
  spec.probs = present(p.probs);
  spec.top = present(p.top_ids) ? p.top_ids.shape[1] : 0;
  return {};
}

Status SampleOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("logits.shape[0]", now.rows, planned.rows));
  FOVEA_TRY(as_planned("logits.shape[1]", now.vocab, planned.vocab));
  Spec same = now;
  same.rows = planned.rows;
  return same == planned ? Status() : other_than_planned("sample");
}

Status SampleOp::bind(const Params& p, const Spec& spec, Args& args) {
  return bind_sampling(p, spec, args);
}

}  // namespace fovea
