// SPDX-License-Identifier: Apache-2.0
#include "ops/sample_checks.h"

#include <cmath>

namespace fovea {

namespace {

constexpr int32_t kI32[] = {FOVEA_I32};
constexpr int32_t kSeedTypes[] = {FOVEA_U64, FOVEA_I64};
constexpr int32_t kMaskTypes[] = {FOVEA_U32, FOVEA_I32};

using Params = fovea_sample_params;

bool in_unit(float x) {
  return x >= 0 && x <= 1;
}

// A scalar that a per-row tensor replaces, or that has no effect, must be left at its default.
Status check_default(const char* name, bool is_default, const std::string& value, const char* why) {
  return is_default ? Status() : invalid_value(name, value, why);
}
Status check_default(const char* name, float value, float fallback, const char* why) {
  return value == fallback ? Status() : invalid_value(name, format_float(value), why);
}

Status check_scalars(const Params& p) {
  if (!(p.temperature >= 0)) {
    return invalid_value("temperature", format_float(p.temperature), "must be 0 (greedy) or above");
  }
  if (!in_unit(p.top_p)) return invalid_value("top_p", format_float(p.top_p), "must be in [0, 1]");
  if (!in_unit(p.min_p)) return invalid_value("min_p", format_float(p.min_p), "must be in [0, 1]");
  if (!(p.repetition_penalty > 0) || std::isinf(p.repetition_penalty)) {
    return invalid_value("repetition_penalty", format_float(p.repetition_penalty), "must be above 0 and finite");
  }
  if (!std::isfinite(p.presence_penalty)) {
    return invalid_value("presence_penalty", format_float(p.presence_penalty), "must be finite");
  }
  if (!std::isfinite(p.frequency_penalty)) {
    return invalid_value("frequency_penalty", format_float(p.frequency_penalty), "must be finite");
  }
  return {};
}

// What draws nothing takes no part of a draw.
Status check_greedy(const Params& p) {
  const char* why = "has no effect at temperature 0: leave the default";
  FOVEA_TRY(check_default("top_k", p.top_k <= 0 || p.top_k >= p.logits.shape[1], std::to_string(p.top_k), why));
  FOVEA_TRY(check_default("top_p", p.top_p, 1, why));
  FOVEA_TRY(check_default("min_p", p.min_p, 0, why));
  FOVEA_TRY(check_default("seed", p.seed == 0, std::to_string(p.seed), why));
  FOVEA_TRY(check_absent("positions", p.positions, why));
  FOVEA_TRY(check_absent("top_ks", p.top_ks, why));
  FOVEA_TRY(check_absent("top_ps", p.top_ps, why));
  FOVEA_TRY(check_absent("min_ps", p.min_ps, why));
  return check_absent("seeds", p.seeds, why);
}

Status check_draws(const Params& p, const SampleRows& rows, Place where) {
  FOVEA_TRY(check_rows("positions", p.positions, kIndexTypes, rows, where));
  if (present(p.temperatures)) {
    FOVEA_TRY(check_rows("temperatures", p.temperatures, kF32, rows, where));
    FOVEA_TRY(check_default("temperature", p.temperature, 0, "temperatures is given"));
  }
  if (present(p.top_ks)) {
    FOVEA_TRY(check_rows("top_ks", p.top_ks, kI32, rows, where));
    FOVEA_TRY(check_default("top_k", p.top_k == 0, std::to_string(p.top_k), "top_ks is given"));
  }
  if (present(p.top_ps)) {
    FOVEA_TRY(check_rows("top_ps", p.top_ps, kF32, rows, where));
    FOVEA_TRY(check_default("top_p", p.top_p, 1, "top_ps is given"));
  }
  if (present(p.min_ps)) {
    FOVEA_TRY(check_rows("min_ps", p.min_ps, kF32, rows, where));
    FOVEA_TRY(check_default("min_p", p.min_p, 0, "min_ps is given"));
  }
  if (present(p.seeds)) {
    FOVEA_TRY(check_rows("seeds", p.seeds, kSeedTypes, rows, where));
    FOVEA_TRY(check_default("seed", p.seed == 0, std::to_string(p.seed), "seeds is given"));
  }
  return {};
}

// `indptr` ends the lists of a set, and `rows` or their number says which row has which.
Status check_lists(const char* name, const fovea_tensor& indptr, const char* rows_name, const fovea_tensor& of_rows,
                   const SampleRows& rows, Place where) {
  FOVEA_TRY(check_tensor(name, indptr, kIndexTypes, 1, 1, where));
  if (indptr.shape[0] < 1) return invalid_value(name, "empty", "must have one entry more than there are lists");
  if (present(of_rows)) return check_rows(rows_name, of_rows, kIndexTypes, rows, where);
  if (indptr.shape[0] - 1 == rows.rows) return {};
  return invalid_value(std::string(name) + ".shape[0]", indptr.shape[0],
                       "must be 1 above " + std::to_string(rows.rows) + " (" + rows.why + "), or give " + rows_name);
}

Status check_penalties(const Params& p, const SampleRows& rows, Place where, bool& given) {
  struct PerRow {
    const char* name;
    const fovea_tensor& values;
    const char* scalar_name;
    float scalar, off;
    const char* why;
  };
  const PerRow all[] = {{"repetition_penalties", p.repetition_penalties, "repetition_penalty", p.repetition_penalty, 1,
                         "repetition_penalties is given"},
                        {"presence_penalties", p.presence_penalties, "presence_penalty", p.presence_penalty, 0,
                         "presence_penalties is given"},
                        {"frequency_penalties", p.frequency_penalties, "frequency_penalty", p.frequency_penalty, 0,
                         "frequency_penalties is given"}};
  given = false;
  for (const PerRow& x : all) {
    given |= present(x.values) || x.scalar != x.off;
    if (!present(x.values)) continue;
    FOVEA_TRY(check_rows(x.name, x.values, kF32, rows, where));
    FOVEA_TRY(check_default(x.scalar_name, x.scalar, x.off, x.why));
  }
  if (!given) {
    const char* why = "has no effect without a penalty";
    FOVEA_TRY(check_absent("history_tokens", p.history_tokens, why));
    FOVEA_TRY(check_absent("history_indptr", p.history_indptr, why));
    FOVEA_TRY(check_absent("history_rows", p.history_rows, why));
    return check_absent("history_prompt_lens", p.history_prompt_lens, why);
  }
  FOVEA_TRY(check_tensor("history_tokens", p.history_tokens, kIndexTypes, 1, 1, where));
  FOVEA_TRY(check_lists("history_indptr", p.history_indptr, "history_rows", p.history_rows, rows, where));
  if (!present(p.history_prompt_lens)) return {};
  FOVEA_TRY(check_tensor("history_prompt_lens", p.history_prompt_lens, kIndexTypes, 1, 1, where));
  return check_dim("history_prompt_lens", p.history_prompt_lens, 0, p.history_indptr.shape[0] - 1,
                   "history_indptr.shape[0] - 1");
}

Status check_bias(const Params& p, const SampleRows& rows, Place where, bool& given) {
  given = present(p.bias_ids);
  if (!given) {
    FOVEA_TRY(check_absent("bias_values", p.bias_values, "needs bias_ids"));
    FOVEA_TRY(check_absent("bias_indptr", p.bias_indptr, "needs bias_ids"));
    return check_absent("bias_rows", p.bias_rows, "needs bias_ids");
  }
  FOVEA_TRY(check_tensor("bias_ids", p.bias_ids, kIndexTypes, 1, 1, where));
  FOVEA_TRY(check_tensor("bias_values", p.bias_values, kF32, 1, 1, where));
  FOVEA_TRY(check_dim("bias_values", p.bias_values, 0, p.bias_ids.shape[0], "bias_ids.shape[0]"));
  return check_lists("bias_indptr", p.bias_indptr, "bias_rows", p.bias_rows, rows, where);
}

Status check_mask(const Params& p, Place where, bool& given) {
  given = present(p.mask_bits);
  if (!given) return check_absent("mask_rows", p.mask_rows, "needs mask_bits");
  FOVEA_TRY(check_tensor("mask_bits", p.mask_bits, kMaskTypes, 2, 2, where));
  const int64_t words = (p.logits.shape[1] + 31) / 32;
  if (p.mask_bits.shape[1] < words) {
    return invalid_value("mask_bits.shape[1]", p.mask_bits.shape[1],
                         "must be at least " + std::to_string(words) + ", a bit for each token");
  }
  const SampleRows rows{p.logits.shape[0], "logits.shape[0]"};
  if (present(p.mask_rows)) return check_rows("mask_rows", p.mask_rows, kIndexTypes, rows, where);
  if (p.mask_bits.shape[0] == rows.rows) return {};
  return invalid_value("mask_bits.shape[0]", p.mask_bits.shape[0],
                       "must be " + std::to_string(rows.rows) + " (logits.shape[0]), or give mask_rows");
}

}  // namespace

Status check_rows(const char* name, const fovea_tensor& t, std::span<const int32_t> types, const SampleRows& rows,
                  Place where) {
  FOVEA_TRY(check_tensor(name, t, types, 1, 1, where));
  return check_dim(name, t, 0, rows.rows, rows.why);
}

Status check_logits(const Params& p, Place where) {
  FOVEA_TRY(check_tensor("logits", p.logits, kFloatTypes, 2, 2, where));
  if (p.logits.shape[1] <= INT32_MAX) return {};
  return invalid_value("logits.shape[1]", p.logits.shape[1], "must be at most " + std::to_string(INT32_MAX));
}

Status check_sampling(const Params& p, const SampleRows& rows, Place where, SampleSpec& spec) {
  FOVEA_TRY(check_scalars(p));
  const bool greedy = p.temperature == 0 && !present(p.temperatures);
  FOVEA_TRY(greedy ? check_greedy(p) : check_draws(p, rows, where));
  bool penalties = false, bias = false, mask = false;
  FOVEA_TRY(check_penalties(p, rows, where, penalties));
  FOVEA_TRY(check_bias(p, rows, where, bias));
  FOVEA_TRY(check_mask(p, where, mask));
  spec = {.logits = dtype(p.logits),
          .greedy = greedy,
          .penalties = penalties,
          .bias = bias,
          .mask = mask,
          .rows = p.logits.shape[0],
          .vocab = p.logits.shape[1]};
  return {};
}

Status bind_sampling(const Params& p, const SampleSpec& spec, SampleArgs& args) {
  struct Bound {
    const char* name;
    const fovea_tensor& tensor;
    View& view;
  };
  args = {};
  args.spec = spec;
  args.temperature = p.temperature;
  args.top_k = p.top_k;
  args.top_p = p.top_p;
  args.min_p = p.min_p;
  args.seed = p.seed;
  args.repetition_penalty = p.repetition_penalty;
  args.presence_penalty = p.presence_penalty;
  args.frequency_penalty = p.frequency_penalty;
  const Bound all[] = {{"logits", p.logits, args.logits},
                       {"tokens", p.tokens, args.tokens},
                       {"positions", p.positions, args.positions},
                       {"temperatures", p.temperatures, args.temperatures},
                       {"top_ks", p.top_ks, args.top_ks},
                       {"top_ps", p.top_ps, args.top_ps},
                       {"min_ps", p.min_ps, args.min_ps},
                       {"seeds", p.seeds, args.seeds},
                       {"repetition_penalties", p.repetition_penalties, args.repetition_penalties},
                       {"presence_penalties", p.presence_penalties, args.presence_penalties},
                       {"frequency_penalties", p.frequency_penalties, args.frequency_penalties},
                       {"history_tokens", p.history_tokens, args.history_tokens},
                       {"history_indptr", p.history_indptr, args.history_indptr},
                       {"history_rows", p.history_rows, args.history_rows},
                       {"history_prompt_lens", p.history_prompt_lens, args.history_prompt_lens},
                       {"bias_ids", p.bias_ids, args.bias_ids},
                       {"bias_values", p.bias_values, args.bias_values},
                       {"bias_indptr", p.bias_indptr, args.bias_indptr},
                       {"bias_rows", p.bias_rows, args.bias_rows},
                       {"mask_bits", p.mask_bits, args.mask_bits},
                       {"mask_rows", p.mask_rows, args.mask_rows},
                       {"logprobs", p.logprobs, args.logprobs},
                       {"top_ids", p.top_ids, args.top_ids},
                       {"top_logprobs", p.top_logprobs, args.top_logprobs},
                       {"probs", p.probs, args.probs}};
  for (const Bound& b : all) {
    FOVEA_TRY(check_data(b.name, b.tensor));
    b.view = view(b.tensor);
  }
  return {};
}

}  // namespace fovea
