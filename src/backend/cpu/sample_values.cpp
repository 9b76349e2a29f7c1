// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/sample_values.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/sample_edits.h"
#include "shared/philox.h"

namespace fovea::cpu {

namespace {

template <class T>
T value_at(const View& rows, int64_t r, T scalar) {
  if (rows.given()) std::memcpy(&scalar, row(rows, r), sizeof scalar);
  return scalar;
}

bool in_unit(float x) {
  return x >= 0 && x <= 1;
}

// The list of a row: -1 where it has none.
int64_t list_of(const View& rows, int64_t r) {
  return rows.given() ? index_at(rows, r) : r;
}

// The row of `rows` names a list of `indptr`, whose elements are some of `n`.
Status check_list(const char* rows_name, const View& rows, const char* indptr_name, const View& indptr,
                  const char* of_name, int64_t n, int64_t r) {
  const int64_t list = list_of(rows, r), lists = indptr.shape[0] - 1;
  if (list < -1 || list >= lists) {
    return bad_value(rows_name, r, std::to_string(list), "must be -1 or in [0, " + std::to_string(lists) + ")");
  }
  if (list < 0) return {};
  const int64_t begin = index_at(indptr, list), end = index_at(indptr, list + 1);
  if (begin < 0) return bad_value(indptr_name, list, std::to_string(begin), "must not be negative");
  if (end < begin) {
    return bad_value(indptr_name, list + 1, std::to_string(end),
                     "must be at least " + std::to_string(begin) + ", the one before");
  }
  if (end <= n) return {};
  return bad_value(indptr_name, list + 1, std::to_string(end),
                   "must be at most " + std::to_string(n) + " (" + of_name + ".shape[0])");
}

Status check_ids(const char* name, const View& ids, int64_t begin, int64_t end, int64_t vocab) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t id = index_at(ids, i);
    if (id >= 0 && id < vocab) continue;
    return bad_value(name, i, std::to_string(id), "must be in [0, " + std::to_string(vocab) + ")");
  }
  return {};
}

Status check_penalties(const SampleArgs& a, int64_t r) {
  const SampleEdits e{.repetition = value_at(a.repetition_penalties, r, a.repetition_penalty),
                      .presence = value_at(a.presence_penalties, r, a.presence_penalty),
                      .frequency = value_at(a.frequency_penalties, r, a.frequency_penalty)};
  if (!(e.repetition > 0) || std::isinf(e.repetition)) {
    return bad_value("repetition_penalties", r, format_float(e.repetition), "must be above 0 and finite");
  }
  if (!std::isfinite(e.presence)) {
    return bad_value("presence_penalties", r, format_float(e.presence), "must be finite");
  }
  if (!std::isfinite(e.frequency)) {
    return bad_value("frequency_penalties", r, format_float(e.frequency), "must be finite");
  }
  if (!e.penalise()) return {};
  FOVEA_TRY(check_list("history_rows", a.history_rows, "history_indptr", a.history_indptr, "history_tokens",
                       a.history_tokens.shape[0], r));
  const int64_t list = list_of(a.history_rows, r);
  if (list < 0) return {};
  const int64_t begin = index_at(a.history_indptr, list), end = index_at(a.history_indptr, list + 1);
  if (a.history_prompt_lens.given()) {
    const int64_t prompt = index_at(a.history_prompt_lens, list);
    if (prompt < 0 || prompt > end - begin) {
      return bad_value("history_prompt_lens", list, std::to_string(prompt),
                       "must be in [0, " + std::to_string(end - begin) + "], the length of its list");
    }
  }
  return check_ids("history_tokens", a.history_tokens, begin, end, a.spec.vocab);
}

Status check_bias(const SampleArgs& a, int64_t r) {
  FOVEA_TRY(check_list("bias_rows", a.bias_rows, "bias_indptr", a.bias_indptr, "bias_ids", a.bias_ids.shape[0], r));
  const int64_t list = list_of(a.bias_rows, r);
  if (list < 0) return {};
  const int64_t begin = index_at(a.bias_indptr, list), end = index_at(a.bias_indptr, list + 1);
  FOVEA_TRY(check_ids("bias_ids", a.bias_ids, begin, end, a.spec.vocab));
  for (int64_t i = begin; i < end; ++i) {
    if (std::isnan(load<float>(row(a.bias_values, i)))) return bad_value("bias_values", i, "nan", "must be a number");
  }
  return {};
}

Status check_draw(const SampleArgs& a, int64_t r) {
  const float t = temperature_of(a, r);
  if (!(t >= 0)) return bad_value("temperatures", r, format_float(t), "must be 0 (greedy) or above");
  if (t == 0) return {};
  const float p = value_at(a.top_ps, r, a.top_p), m = value_at(a.min_ps, r, a.min_p);
  if (!in_unit(p)) return bad_value("top_ps", r, format_float(p), "must be in [0, 1]");
  if (!in_unit(m)) return bad_value("min_ps", r, format_float(m), "must be in [0, 1]");
  const int64_t position = index_at(a.positions, r);
  if (position < 0) return bad_value("positions", r, std::to_string(position), "must not be negative");
  return {};
}

}  // namespace

Status bad_value(const char* name, int64_t i, const std::string& value, const std::string& allowed) {
  return invalid_value(std::string(name) + "[" + std::to_string(i) + "]", value, allowed);
}

Status check_row_values(const SampleArgs& a, int64_t r) {
  FOVEA_TRY(check_draw(a, r));
  if (a.spec.penalties) FOVEA_TRY(check_penalties(a, r));
  return a.spec.bias ? check_bias(a, r) : Status();
}

Status check_mask_row(const SampleArgs& a, int64_t row) {
  if (!a.mask_rows.given()) return {};
  const int64_t mask = index_at(a.mask_rows, row), masks = a.mask_bits.shape[0];
  if (mask >= -1 && mask < masks) return {};
  return bad_value("mask_rows", row, std::to_string(mask), "must be -1 or in [0, " + std::to_string(masks) + ")");
}

float temperature_of(const SampleArgs& a, int64_t r) {
  return value_at(a.temperatures, r, a.temperature);
}

SampleRule rule_of(const SampleArgs& a, int64_t r) {
  const int32_t k = value_at(a.top_ks, r, a.top_k);
  return {.temperature = temperature_of(a, r),
          .top_k = k <= 0 || k > a.spec.vocab ? a.spec.vocab : k,
          .top_p = value_at(a.top_ps, r, a.top_p),
          .min_p = value_at(a.min_ps, r, a.min_p)};
}

double uniform_of(const SampleArgs& a, int64_t r, int64_t offset, u32_t stream) {
  const auto position = static_cast<u64_t>(index_at(a.positions, r)) + static_cast<u64_t>(offset);
  return philox_uniform(value_at(a.seeds, r, a.seed), position, stream);
}

SampleEdits edits_of(const SampleArgs& a, int64_t r, int64_t mask_row) {
  SampleEdits e;
  if (a.spec.penalties) {
    e.repetition = value_at(a.repetition_penalties, r, a.repetition_penalty);
    e.presence = value_at(a.presence_penalties, r, a.presence_penalty);
    e.frequency = value_at(a.frequency_penalties, r, a.frequency_penalty);
    const int64_t list = e.penalise() ? list_of(a.history_rows, r) : -1;
    if (list >= 0) {
      e.history_begin = index_at(a.history_indptr, list);
      e.history_end = index_at(a.history_indptr, list + 1);
      const int64_t prompt = a.history_prompt_lens.given() ? index_at(a.history_prompt_lens, list) : 0;
      e.outputs_begin = e.history_begin + prompt;
    }
  }
  const int64_t bias = a.spec.bias ? list_of(a.bias_rows, r) : -1;
  if (bias >= 0) {
    e.bias_begin = index_at(a.bias_indptr, bias);
    e.bias_end = index_at(a.bias_indptr, bias + 1);
  }
  if (a.spec.mask) e.mask = list_of(a.mask_rows, mask_row);
  return e;
}

SampleWorkspace workspace_of(const fovea_exec& exec, int64_t task, const SampleSpec& spec) {
  if (exec.scratch == nullptr) return {};  // the plan asked for none
  const auto at = (reinterpret_cast<uintptr_t>(exec.scratch) + 63) / 64 * 64;
  char* base = reinterpret_cast<char*>(at) + task * sample_workspace_bytes(spec);
  const int64_t words = sample_padded(spec.vocab);
  float* logits = reinterpret_cast<float*>(base);
  return {.logits = logits,
          .weights = logits + words,
          .ids = reinterpret_cast<i32_t*>(logits + 2 * words),
          .top = reinterpret_cast<u64_t*>(logits + 3 * words)};
}

float load_row(const Isa& isa, const SampleArgs& a, int64_t row, int64_t r, const View& path, int64_t n_path,
               const SampleWorkspace& to) {
  const float max = sample_load(isa, a.logits, row, to.logits);
  if (!a.spec.edits()) return max;
  edit_logits(a, edits_of(a, r, row), path, n_path, to.logits, reinterpret_cast<u32_t*>(to.ids));
  return sample_peak(isa, to.logits, a.spec.vocab);
}

const char* no_number(const SampleSpec& spec) {
  return spec.edits() ? "without a number above -inf after penalties, bias and mask" : "without a number above -inf";
}

namespace {
void put_at(char* to, Dtype type, int64_t value) {
  const int32_t narrow = static_cast<int32_t>(value);
  const bool is_narrow = type == Dtype::i32;
  std::memcpy(to, is_narrow ? static_cast<const void*>(&narrow) : &value, is_narrow ? sizeof narrow : sizeof value);
}
}  // namespace

void put_index(const View& to, int64_t i, int64_t value) {
  put_at(row(to, i), to.dtype, value);
}

void put_index(const View& to, int64_t i, int64_t j, int64_t value) {
  put_at(row(to, i, j), to.dtype, value);
}

}  // namespace fovea::cpu
