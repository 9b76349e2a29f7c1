// SPDX-License-Identifier: Apache-2.0
#include "ops/verify.h"

#include "ops/sample_checks.h"

namespace fovea {

namespace {

Status check_target(const fovea_sample_params& t, int64_t requests, Place where, SampleSpec& spec) {
  FOVEA_TRY(check_struct("target", &t));
  FOVEA_TRY(in_struct("target", check_logits(t, where)));
  FOVEA_TRY(in_struct("target", check_sampling(t, {requests, "cu_nodes.shape[0] - 1"}, where, spec)));
  const char* why = "verify has outputs of its own";
  FOVEA_TRY(in_struct("target", check_absent("tokens", t.tokens, why)));
  FOVEA_TRY(in_struct("target", check_absent("logprobs", t.logprobs, why)));
  FOVEA_TRY(in_struct("target", check_absent("top_ids", t.top_ids, why)));
  FOVEA_TRY(in_struct("target", check_absent("top_logprobs", t.top_logprobs, why)));
  FOVEA_TRY(in_struct("target", check_absent("probs", t.probs, why)));
  if (t.logprobs_kind == FOVEA_LOGPROBS_RAW) return {};
  return invalid_value("target.logprobs_kind", t.logprobs_kind, why);
}

// Greedy targets ask only whether a draft is the best token.
Status check_drafts(const fovea_verify_params& p, int64_t nodes, bool greedy, Place where) {
  const SampleRows rows{nodes, "target.logits.shape[0]"};
  FOVEA_TRY(check_rows("draft_tokens", p.draft_tokens, kIndexTypes, rows, where));
  if (present(p.parents)) FOVEA_TRY(check_rows("parents", p.parents, kIndexTypes, rows, where));
  if (!present(p.draft_probs)) return check_absent("draft_rows", p.draft_rows, "needs draft_probs");
  if (greedy) return check_absent("draft_probs", p.draft_probs, "has no effect at temperature 0");
  FOVEA_TRY(check_tensor("draft_probs", p.draft_probs, kFloatTypes, 2, 2, where));
  FOVEA_TRY(check_dim("draft_probs", p.draft_probs, 1, p.target->logits.shape[1], "target.logits.shape[1]"));
  if (present(p.draft_rows)) return check_rows("draft_rows", p.draft_rows, kIndexTypes, rows, where);
  if (p.draft_probs.shape[0] == nodes) return {};
  return invalid_value("draft_probs.shape[0]", p.draft_probs.shape[0],
                       "must be " + std::to_string(nodes) + " (target.logits.shape[0]), or give draft_rows");
}

Status check_outputs(const fovea_verify_params& p, const SampleRows& rows, Place where) {
  FOVEA_TRY(check_rows("accepted", p.accepted, kIndexTypes, rows, where));
  FOVEA_TRY(check_writable("accepted", p.accepted));
  FOVEA_TRY(check_tensor("tokens", p.tokens, kIndexTypes, 2, 2, where));
  FOVEA_TRY(check_dim("tokens", p.tokens, 0, rows.rows, rows.why));
  if (p.tokens.shape[1] < 1) {
    return invalid_value("tokens.shape[1]", p.tokens.shape[1], "must be at least 1, for the token after the drafts");
  }
  FOVEA_TRY(check_writable("tokens", p.tokens));
  if (!present(p.nodes)) return {};
  FOVEA_TRY(check_tensor("nodes", p.nodes, kIndexTypes, 2, 2, where));
  FOVEA_TRY(check_same_shape("nodes", p.nodes, "tokens", p.tokens));
  return check_writable("nodes", p.nodes);
}

}  // namespace

Status VerifyOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  if (p.target == nullptr) return invalid_value("target", "null", "must point to the parameters of sampling");
  FOVEA_TRY(check_tensor("cu_nodes", p.cu_nodes, kIndexTypes, 1, 1, where));
  if (p.cu_nodes.shape[0] < 1) return invalid_value("cu_nodes", "empty", "must have one entry more than requests");
  const SampleRows requests{p.cu_nodes.shape[0] - 1, "cu_nodes.shape[0] - 1"};
  SampleSpec target;
  FOVEA_TRY(check_target(*p.target, requests.rows, where, target));
  FOVEA_TRY(check_drafts(p, target.rows, target.greedy != 0, where));
  FOVEA_TRY(check_outputs(p, requests, where));
  spec = {.target = target, .tree = present(p.parents), .drawn = present(p.draft_probs), .requests = requests.rows};
  spec.target.tokens = dtype(p.tokens);
  return {};
}

Status VerifyOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("target.logits.shape[0]", now.target.rows, planned.target.rows));
  FOVEA_TRY(as_planned("target.logits.shape[1]", now.target.vocab, planned.target.vocab));
  FOVEA_TRY(at_most_planned("requests", now.requests, planned.requests));
  Spec same = now;
  same.target.rows = planned.target.rows;
  same.requests = planned.requests;
  return same == planned ? Status() : other_than_planned("verify");
}

Status VerifyOp::bind(const Params& p, const Spec& spec, Args& args) {
  args.spec = spec;
  FOVEA_TRY(in_struct("target", bind_sampling(*p.target, spec.target, args.target)));
  struct Bound {
    const char* name;
    const fovea_tensor& tensor;
    View& view;
  };
  const Bound all[] = {{"cu_nodes", p.cu_nodes, args.cu_nodes},
                       {"draft_tokens", p.draft_tokens, args.draft_tokens},
                       {"parents", p.parents, args.parents},
                       {"draft_probs", p.draft_probs, args.draft_probs},
                       {"draft_rows", p.draft_rows, args.draft_rows},
                       {"accepted", p.accepted, args.accepted},
                       {"tokens", p.tokens, args.tokens},
                       {"nodes", p.nodes, args.nodes}};
  for (const Bound& b : all) {
    FOVEA_TRY(check_data(b.name, b.tensor));
    b.view = view(b.tensor);
  }
  return {};
}

}  // namespace fovea
