// SPDX-License-Identifier: Apache-2.0
#include "ops/sample.h"

namespace fovea {

namespace {

constexpr int32_t kI32[] = {FOVEA_I32};
constexpr int32_t kSeedTypes[] = {FOVEA_U64, FOVEA_I64};

bool in_unit(float x) {
  return x >= 0 && x <= 1;
}

// A scalar that a per-row tensor replaces, or that has no effect, must be left at its default.
Status check_default(const char* name, bool is_default, const std::string& value, const char* why) {
  return is_default ? Status() : invalid_value(name, value, why);
}

Status check_scalars(const fovea_sample_params& p) {
  if (!(p.temperature >= 0)) {
    return invalid_value("temperature", format_float(p.temperature), "must be 0 (greedy) or above");
  }
  if (!in_unit(p.top_p)) return invalid_value("top_p", format_float(p.top_p), "must be in [0, 1]");
  if (!in_unit(p.min_p)) return invalid_value("min_p", format_float(p.min_p), "must be in [0, 1]");
  return {};
}

// What draws nothing takes no part of a draw.
Status check_greedy(const fovea_sample_params& p) {
  const char* why = "has no effect at temperature 0: leave the default";
  FOVEA_TRY(check_default("top_k", p.top_k <= 0 || p.top_k >= p.logits.shape[1], std::to_string(p.top_k), why));
  FOVEA_TRY(check_default("top_p", p.top_p == 1.0f, format_float(p.top_p), why));
  FOVEA_TRY(check_default("min_p", p.min_p == 0.0f, format_float(p.min_p), why));
  FOVEA_TRY(check_default("seed", p.seed == 0, std::to_string(p.seed), why));
  FOVEA_TRY(check_absent("positions", p.positions, why));
  FOVEA_TRY(check_absent("top_ks", p.top_ks, why));
  FOVEA_TRY(check_absent("top_ps", p.top_ps, why));
  FOVEA_TRY(check_absent("min_ps", p.min_ps, why));
  return check_absent("seeds", p.seeds, why);
}

Status check_rows(const char* name, const fovea_tensor& t, std::span<const int32_t> types, const fovea_sample_params& p,
                  Place where) {
  FOVEA_TRY(check_tensor(name, t, types, 1, 1, where));
  return check_dim(name, t, 0, p.logits.shape[0], "logits.shape[0]");
}

Status check_per_row(const fovea_sample_params& p, Place where) {
  if (present(p.temperatures)) {
    FOVEA_TRY(check_rows("temperatures", p.temperatures, kF32, p, where));
    FOVEA_TRY(check_default("temperature", p.temperature == 0, format_float(p.temperature), "temperatures is given"));
  }
  if (present(p.top_ks)) {
    FOVEA_TRY(check_rows("top_ks", p.top_ks, kI32, p, where));
    FOVEA_TRY(check_default("top_k", p.top_k == 0, std::to_string(p.top_k), "top_ks is given"));
  }
  if (present(p.top_ps)) {
    FOVEA_TRY(check_rows("top_ps", p.top_ps, kF32, p, where));
    FOVEA_TRY(check_default("top_p", p.top_p == 1.0f, format_float(p.top_p), "top_ps is given"));
  }
  if (present(p.min_ps)) {
    FOVEA_TRY(check_rows("min_ps", p.min_ps, kF32, p, where));
    FOVEA_TRY(check_default("min_p", p.min_p == 0.0f, format_float(p.min_p), "min_ps is given"));
  }
  if (present(p.seeds)) {
    FOVEA_TRY(check_rows("seeds", p.seeds, kSeedTypes, p, where));
    FOVEA_TRY(check_default("seed", p.seed == 0, std::to_string(p.seed), "seeds is given"));
  }
  return {};
}

}  // namespace

Status SampleOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  FOVEA_TRY(check_scalars(p));
  FOVEA_TRY(check_tensor("logits", p.logits, kFloatTypes, 2, 2, where));
  if (p.logits.shape[1] > INT32_MAX) {
    return invalid_value("logits.shape[1]", p.logits.shape[1], "must be at most " + std::to_string(INT32_MAX));
  }
  FOVEA_TRY(check_rows("tokens", p.tokens, kIndexTypes, p, where));
  FOVEA_TRY(check_writable("tokens", p.tokens));
  const bool greedy = p.temperature == 0 && !present(p.temperatures);
  if (greedy) {
    FOVEA_TRY(check_greedy(p));
  } else {
    FOVEA_TRY(check_rows("positions", p.positions, kIndexTypes, p, where));
    FOVEA_TRY(check_per_row(p, where));
  }
  spec = {.logits = dtype(p.logits),
          .tokens = dtype(p.tokens),
          .greedy = greedy,
          .rows = p.logits.shape[0],
          .vocab = p.logits.shape[1]};
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
  FOVEA_TRY(check_data("logits", p.logits));
  FOVEA_TRY(check_data("tokens", p.tokens));
  FOVEA_TRY(check_data("positions", p.positions));
  FOVEA_TRY(check_data("temperatures", p.temperatures));
  FOVEA_TRY(check_data("top_ks", p.top_ks));
  FOVEA_TRY(check_data("top_ps", p.top_ps));
  FOVEA_TRY(check_data("min_ps", p.min_ps));
  FOVEA_TRY(check_data("seeds", p.seeds));
  args = {.spec = spec,
          .logits = view(p.logits),
          .tokens = view(p.tokens),
          .positions = view(p.positions),
          .temperatures = view(p.temperatures),
          .top_ks = view(p.top_ks),
          .top_ps = view(p.top_ps),
          .min_ps = view(p.min_ps),
          .seeds = view(p.seeds),
          .temperature = p.temperature,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .seed = p.seed};
  return {};
}

}  // namespace fovea
