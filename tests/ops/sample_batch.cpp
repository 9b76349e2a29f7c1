// SPDX-License-Identifier: Apache-2.0
#include "ops/sample_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fovea::test {

namespace {

double as_float(double x) {
  return static_cast<double>(static_cast<float>(x));
}

std::vector<int64_t> tokens_of(Rng& rng, int64_t most, int64_t vocab) {
  std::vector<int64_t> tokens(static_cast<size_t>(rng.integer(0, most)));
  for (int64_t& t : tokens) t = rng.integer(0, std::min<int64_t>(vocab, 12) - 1);  // few kinds: counts above 1
  return tokens;
}

template <class Get>
std::vector<double> of_rows(const std::vector<SampleRow>& rows, const Get& get) {
  std::vector<double> values;
  for (const SampleRow& row : rows) values.push_back(static_cast<double>(get(row)));
  return values;
}

// Lists of nonsense among those of the rows, in any order: where row r's is, and where each ends.
template <class Value>
struct Shuffled {
  Shuffled(Rng& rng, const std::vector<std::vector<Value>>& lists, Value nonsense) {
    std::vector<int64_t> order(lists.size() * 2 + 1);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.bits() % i]);
    rows.assign(lists.size(), -1);
    values.assign(3, nonsense);  // before the first list
    indptr = {3};
    for (size_t place = 0; place < order.size(); ++place) {
      const auto list = static_cast<size_t>(order[place]);
      const std::vector<Value> here = list < lists.size() ? lists[list] : std::vector<Value>(2, nonsense);
      values.insert(values.end(), here.begin(), here.end());
      indptr.push_back(static_cast<int64_t>(values.size()));
      if (list < lists.size()) rows[list] = static_cast<int64_t>(place);
    }
    for (size_t r = 0; r < lists.size(); ++r) {
      if (lists[r].empty() && rng.chance(0.5)) rows[r] = -1;
    }
  }
  std::vector<Value> values;
  std::vector<int64_t> indptr, rows;
};

}  // namespace

SampleRow random_row(Rng& rng, int64_t vocab) {
  SampleRow row;
  row.rule = {.temperature = as_float(rng.pick({0.0, 0.1, 0.7, 1.0, 3.0})),
              .top_k = rng.pick({int64_t{0}, int64_t{1}, int64_t{2}, rng.integer(1, vocab), int64_t{40}}),
              .top_p = as_float(rng.pick({1.0, 1.0, 0.0, 0.5, 0.9, rng.uniform()})),
              .min_p = as_float(rng.pick({0.0, 0.0, 0.05, 1.0, rng.uniform()}))};
  if (rng.chance(0.6)) {
    row.edits.repetition = rng.pick({1.0, 1.25, 2.0, 0.5});
    row.edits.presence = rng.pick({0.0, 0.5, -0.75});
    row.edits.frequency = rng.pick({0.0, 0.25, -0.125});
    row.edits.prompt = tokens_of(rng, 10, vocab);
    row.edits.output = tokens_of(rng, 20, vocab);
  }
  for (int64_t i = rng.chance(0.5) ? rng.integer(1, 6) : 0; i > 0; --i) {
    row.edits.bias.emplace_back(rng.integer(0, vocab - 1), rng.pick({-HUGE_VAL, 2.0, -1.5, 0.25, 100.0}));
  }
  if (rng.chance(0.5)) {
    const double share = rng.pick({0.02, 0.5, 0.98});
    for (int64_t t = 0; t < vocab; ++t) row.edits.allowed.push_back(rng.chance(share));
  }
  row.seed = rng.bits();
  row.position = rng.integer(0, int64_t{1} << 40);
  return row;
}

TensorBox random_logits(Rng& rng, int64_t rows, int64_t vocab) {
  TensorBox logits(rng.pick({FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_BF16}), {rows, vocab}, random_layout(rng, 2));
  const double spread = rng.pick({0.0, 0.3, 3.0, 20.0});
  logits.fill([&](int64_t) {
    return rng.chance(0.1) ? rng.pick({-HUGE_VAL, std::nan(""), 1.0, 0.0, -0.0}) : rng.normal() * spread;
  });
  for (int64_t r = 0; r < rows; ++r) logits.set(r * vocab + rng.integer(0, vocab - 1), 1.5);
  return logits;
}

std::vector<double> logits_of(const TensorBox& logits, int64_t row) {
  const int64_t vocab = logits.view().shape[1];
  std::vector<double> values;
  for (int64_t i = 0; i < vocab; ++i) values.push_back(logits.get(row * vocab + i));
  return values;
}

SampleTensors::SampleTensors(Rng& rng, const std::vector<SampleRow>& rows, int64_t vocab,
                             const std::vector<int64_t>* mask_of) {
  const auto n = static_cast<int64_t>(rows.size());
  const auto index_type = [&] { return rng.pick({FOVEA_I32, FOVEA_I64}); };
  std::vector<int64_t> positions, top_ks;
  seeds_ = TensorBox(rng.pick({FOVEA_U64, FOVEA_I64}), {n});
  std::vector<std::vector<int64_t>> histories, bias_ids;
  std::vector<double> bias_values;
  for (int64_t r = 0; r < n; ++r) {
    const SampleRow& row = rows[static_cast<size_t>(r)];
    positions.push_back(row.position);
    top_ks.push_back(row.rule.top_k);
    *static_cast<uint64_t*>(seeds_.at(r)) = row.seed;
    histories.push_back(row.edits.prompt);
    histories.back().insert(histories.back().end(), row.edits.output.begin(), row.edits.output.end());
    bias_ids.emplace_back();
    for (const auto& pair : row.edits.bias) bias_ids.back().push_back(pair.first);
  }
  positions_ = indices(positions, FOVEA_I64);
  top_ks_ = indices(top_ks);
  temperatures_ = floats(of_rows(rows, [](const SampleRow& x) { return x.rule.temperature; }));
  top_ps_ = floats(of_rows(rows, [](const SampleRow& x) { return x.rule.top_p; }));
  min_ps_ = floats(of_rows(rows, [](const SampleRow& x) { return x.rule.min_p; }));
  repetition_ = floats(of_rows(rows, [](const SampleRow& x) { return x.edits.repetition; }));
  presence_ = floats(of_rows(rows, [](const SampleRow& x) { return x.edits.presence; }));
  frequency_ = floats(of_rows(rows, [](const SampleRow& x) { return x.edits.frequency; }));

  const Shuffled<int64_t> history(rng, histories, -7), bias(rng, bias_ids, -7);
  history_ = {indices(history.values, index_type()), indices(history.indptr, index_type()),
              indices(history.rows, index_type())};
  bias_ = {indices(bias.values, index_type()), indices(bias.indptr, index_type()), indices(bias.rows, index_type())};
  std::vector<int64_t> prompt_lens(history.indptr.size() - 1, -3);
  std::vector<double> values(bias.values.size(), std::nan(""));
  for (size_t r = 0; r < rows.size(); ++r) {
    if (history.rows[r] >= 0) {
      prompt_lens[static_cast<size_t>(history.rows[r])] = static_cast<int64_t>(rows[r].edits.prompt.size());
    }
    if (bias.rows[r] < 0) continue;
    const auto begin = static_cast<size_t>(bias.indptr[static_cast<size_t>(bias.rows[r])]);
    for (size_t i = 0; i < rows[r].edits.bias.size(); ++i) values[begin + i] = rows[r].edits.bias[i].second;
  }
  prompt_lens_ = indices(prompt_lens, index_type());
  bias_values_ = floats(values);

  // Masks in the rows' order behind one that nobody names; bits beyond the vocabulary are random.
  const int64_t words = (vocab + 31) / 32 + rng.integer(0, 2);
  mask_bits_ = TensorBox(rng.pick({FOVEA_U32, FOVEA_I32}), {n + 1, words}, random_layout(rng, 2));
  std::vector<int64_t> mask_rows;
  for (int64_t r = 0; r < n; ++r) {
    const std::vector<bool>& allowed = rows[static_cast<size_t>(r)].edits.allowed;
    for (int64_t w = 0; w < words; ++w) {
      auto word = static_cast<uint32_t>(rng.bits());
      for (int64_t bit = 0; bit < 32 && w * 32 + bit < static_cast<int64_t>(allowed.size()); ++bit) {
        const uint32_t one = 1u << bit;
        word = allowed[static_cast<size_t>(w * 32 + bit)] ? word | one : word & ~one;
      }
      *static_cast<uint32_t*>(mask_bits_.at((r + 1) * words + w)) = word;
    }
    mask_rows.push_back(allowed.empty() ? -1 : r + 1);
  }
  if (mask_of != nullptr) {
    std::vector<int64_t> of_rows_of_logits;
    for (const int64_t of : *mask_of) of_rows_of_logits.push_back(mask_rows[static_cast<size_t>(of)]);
    mask_rows = of_rows_of_logits;
  }
  mask_rows_ = indices(mask_rows, index_type());
}

void SampleTensors::put(SampleParams& p) const {
  p.positions = positions_;
  p.temperatures = temperatures_;
  p.top_ks = top_ks_;
  p.top_ps = top_ps_;
  p.min_ps = min_ps_;
  p.seeds = seeds_;
  p.repetition_penalties = repetition_;
  p.presence_penalties = presence_;
  p.frequency_penalties = frequency_;
  p.history_tokens = history_.values;
  p.history_indptr = history_.indptr;
  p.history_rows = history_.rows;
  p.history_prompt_lens = prompt_lens_;
  p.bias_ids = bias_.values;
  p.bias_values = bias_values_;
  p.bias_indptr = bias_.indptr;
  p.bias_rows = bias_.rows;
  p.mask_bits = mask_bits_;
  p.mask_rows = mask_rows_;
}

std::vector<double> probabilities_of(const std::vector<double>& logits, const SampleRow& row) {
  const std::vector<double> edited = oracle::edited64(logits, row.edits);
  if (row.rule.temperature > 0) return oracle::probabilities64(edited, row.rule);
  return oracle::probabilities64(edited, {.top_k = 1});
}

bool holds(const std::vector<double>& p, int64_t token, double uniform) {
  if (token < 0 || token >= static_cast<int64_t>(p.size()) || p[static_cast<size_t>(token)] == 0) return false;
  const double end = std::accumulate(p.begin(), p.begin() + token + 1, 0.0);
  return end - p[static_cast<size_t>(token)] - 1e-6 <= uniform && uniform < end + 1e-6;
}

ChiSquare chi_square(const std::vector<double>& count, const std::vector<double>& p) {
  const double draws = std::accumulate(count.begin(), count.end(), 0.0);
  double chi = 0, freedom = -1, rare = 0, rare_want = 0;
  const auto add = [&](double got, double want) {
    chi += (got - want) * (got - want) / want;
    ++freedom;
  };
  for (size_t i = 0; i < p.size(); ++i) {
    const double want = p[i] * draws;
    if (p[i] == 0 && count[i] > 0) return {HUGE_VAL, 0};
    if (want >= 5) {
      add(count[i], want);
    } else {
      rare += count[i];
      rare_want += want;
    }
  }
  if (rare_want >= 5) add(rare, rare_want);
  if (freedom < 1) return {0, 1};
  return {chi / freedom, 1 + 5 * std::sqrt(2 / freedom)};
}

}  // namespace fovea::test
