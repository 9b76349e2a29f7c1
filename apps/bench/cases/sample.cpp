// SPDX-License-Identifier: Apache-2.0
// sample and verify.
#include "bench/case.h"
#include "bench/cases/kv.h"

namespace fovea::bench {

namespace {

// `n` ids of each of s.batch lists, and where the lists end.
Tensor lists_of(const Shape& s, Data& data, int64_t n) {
  return data.index<int32_t>({s.batch * n}, [&](int32_t* ids) {
    for (int64_t i = 0; i < s.batch * n; ++i) ids[i] = static_cast<int32_t>(data.rng().below(s.vocab));
  });
}

// What shapes the distribution, of `rows` rows of logits.
SampleParams target(const Shape& s, Data& data, int64_t rows) {
  SampleParams p{.top_k = static_cast<int32_t>(s.top_k),
                 .temperature = static_cast<float>(s.temperature),
                 .top_p = static_cast<float>(s.top_p),
                 .min_p = static_cast<float>(s.min_p),
                 .logits = data.random(s.type, {rows, s.vocab})};
  if (s.temperature > 0) p.positions = data.steps(s.batch, 1);
  if (s.history > 0) {
    p.repetition_penalty = 1.1f;
    p.presence_penalty = p.frequency_penalty = 0.1f;
    p.history_tokens = lists_of(s, data, s.history);
    p.history_indptr = data.steps(s.batch + 1, s.history);
  }
  if (s.biases > 0) {
    p.bias_ids = lists_of(s, data, s.biases);
    p.bias_values = data.random(FOVEA_F32, {s.batch * s.biases});
    p.bias_indptr = data.steps(s.batch + 1, s.biases);
  }
  if (s.mask_bits) {
    const int64_t words = rows * ((s.vocab + 31) / 32);
    p.mask_bits = data.index<uint32_t>({rows, words / rows}, [&](uint32_t* bits) {
      for (int64_t i = 0; i < words; ++i) bits[i] = static_cast<uint32_t>(data.rng().bits()) | 1u;
    });
  }
  return p;
}

double bytes_of_rows(const Shape& s, double rows) {
  return bytes_of(s.type, rows * static_cast<double>(s.vocab));
}

}  // namespace

SampleParams sample_params(const Shape& s, Data& data) {
  SampleParams p = target(s, data, s.batch);
  p.tokens = data.constants(s.batch, -1);
  if (s.logprobs > 0) {
    p.logprobs = data.output(FOVEA_F32, {s.batch});
    p.top_ids = data.constants(s.batch * s.logprobs, -1);
    p.top_ids = tensor(p.top_ids.data, FOVEA_I32, {s.batch, s.logprobs});
    p.top_logprobs = data.output(FOVEA_F32, {s.batch, s.logprobs});
  }
  if (s.probs) p.probs = data.output(FOVEA_F32, {s.batch, s.vocab});
  return p;
}

Work sample_work(const Shape& s) {
  const auto rows = static_cast<double>(s.batch);
  const double probs = s.probs ? 4 * rows * static_cast<double>(s.vocab) : 0;
  return {.bytes = bytes_of_rows(s, rows) + probs};
}

VerifyParams verify_params(const Shape& s, Data& data) {
  const int64_t nodes = s.batch * (s.drafts + 1);
  VerifyParams p{.target = data.keep(target(s, data, nodes)),
                 .cu_nodes = data.steps(s.batch + 1, s.drafts + 1),
                 .draft_tokens = data.index<int32_t>({nodes},
                                                     [&](int32_t* ids) {
                                                       for (int64_t i = 0; i < nodes; ++i) {
                                                         ids[i] = static_cast<int32_t>(data.rng().below(s.vocab));
                                                       }
                                                     }),
                 .accepted = data.constants(s.batch, -1)};
  if (s.draft_probs) {
    p.draft_probs = data.index<float>({nodes, s.vocab}, [&](float* probs) {
      for (int64_t i = 0; i < nodes * s.vocab; ++i) probs[i] = static_cast<float>(data.rng().below(1 << 16) + 1);
    });
  }
  const Tensor flat = data.constants(nodes, -1);
  p.tokens = tensor(flat.data, FOVEA_I32, {s.batch, s.drafts + 1});
  return p;
}

// The rows that a walk touches depend on the data: counted are one per request and of its draft.
Work verify_work(const Shape& s) {
  const auto requests = static_cast<double>(s.batch);
  const double drafts = s.draft_probs ? 4 * requests * static_cast<double>(s.vocab) : 0;
  return {.bytes = bytes_of_rows(s, requests) + drafts};
}

}  // namespace fovea::bench
