// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/sample.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "backend/cpu/context.h"
#include "shared/philox.h"

namespace fovea::cpu {

namespace {

template <class T>
T value_at(const View& rows, int64_t r, T scalar) {
  if (rows.given()) std::memcpy(&scalar, row(rows, r), sizeof scalar);
  return scalar;
}

float temperature_of(const SampleArgs& a, int64_t r) {
  return value_at(a.temperatures, r, a.temperature);
}

SampleRule rule_of(const SampleArgs& a, int64_t r) {
  const int32_t k = value_at(a.top_ks, r, a.top_k);
  return {.temperature = temperature_of(a, r),
          .top_k = k <= 0 || k > a.spec.vocab ? a.spec.vocab : k,
          .top_p = value_at(a.top_ps, r, a.top_p),
          .min_p = value_at(a.min_ps, r, a.min_p),
          .draw = philox_uniform(value_at(a.seeds, r, a.seed), static_cast<uint64_t>(index_at(a.positions, r)))};
}

Status bad_row(const char* name, int64_t r, const std::string& value, const char* allowed) {
  return invalid_value(std::string(name) + "[" + std::to_string(r) + "]", value, allowed);
}

bool in_unit(float x) {
  return x >= 0 && x <= 1;
}

// The values that only memory shows. A greedy row needs its temperature alone.
Status check_row(const SampleArgs& a, int64_t r) {
  const float t = temperature_of(a, r);
  if (!(t >= 0)) return bad_row("temperatures", r, format_float(t), "must be 0 (greedy) or above");
  if (t == 0) return {};
  const float p = value_at(a.top_ps, r, a.top_p), m = value_at(a.min_ps, r, a.min_p);
  if (!in_unit(p)) return bad_row("top_ps", r, format_float(p), "must be in [0, 1]");
  if (!in_unit(m)) return bad_row("min_ps", r, format_float(m), "must be in [0, 1]");
  const int64_t position = index_at(a.positions, r);
  if (position < 0) return bad_row("positions", r, std::to_string(position), "must not be negative");
  return {};
}

SampleWorkspace workspace_of(const fovea_exec& exec, int64_t task, int64_t vocab) {
  const auto at = (reinterpret_cast<uintptr_t>(exec.scratch) + 63) / 64 * 64;
  const int64_t words = sample_padded_vocab(vocab);
  float* logits = reinterpret_cast<float*>(at) + task * 3 * words;
  return {.logits = logits, .weights = logits + words, .ids = reinterpret_cast<i32_t*>(logits + 2 * words)};
}

void put_token(const View& tokens, int64_t r, int64_t token) {
  const int32_t narrow = static_cast<int32_t>(token);
  std::memcpy(row(tokens, r), tokens.dtype == Dtype::i32 ? static_cast<const void*>(&narrow) : &token,
              tokens.dtype == Dtype::i32 ? sizeof narrow : sizeof token);
}

}  // namespace

Status sample(BackendContext& context, const SamplePlan&, const SampleArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  const int64_t rows = args.spec.rows;
  for (int64_t r = 0; r < rows; ++r) FOVEA_TRY(check_row(args, r));
  std::atomic<int64_t> empty{rows};  // the first row without a number
  const auto one_row = [&](int64_t r, int64_t task) {
    const int64_t token = temperature_of(args, r) == 0 ? sample_greedy(c.isa, args, r)
                                                       : sample_draw(c.isa, args, r, rule_of(args, r),
                                                                     workspace_of(exec, task, args.spec.vocab));
    put_token(args.tokens, r, token);
    for (int64_t first = empty; token < 0 && r < first && !empty.compare_exchange_weak(first, r);) {
    }
  };
  const int64_t tasks = args.spec.greedy ? rows : std::min<int64_t>(rows, kSampleTasks);
  c.parallel_for(tasks, [&](int64_t task) {
    for (int64_t r = task; r < rows; r += tasks) one_row(r, task);
  });
  if (empty == rows) return {};
  return report(
      exec, invalid_value("logits[" + std::to_string(empty) + "]", "without a number above -inf", "its token is -1"));
}

}  // namespace fovea::cpu
