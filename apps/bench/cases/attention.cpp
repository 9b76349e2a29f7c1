// SPDX-License-Identifier: Apache-2.0
// attention and merge_states.
#include <algorithm>
#include <cmath>

#include "bench/case.h"
#include "bench/cases/kv.h"

namespace fovea::bench {

namespace {

const Kv* make_kv(const Shape& s, Data& data) {
  const Paging paging(s);
  Kv kv = make_cache(s, data, paging.page_size, s.batch * paging.per_sequence, Reuse::kPerSet);
  if (s.page_size > 0) kv.page_table = data.permutation(s.batch, paging.per_sequence);
  kv.kv_lens = data.constants(s.batch, s.kv_len);
  return data.keep(kv);
}

void set_mask(const Shape& s, AttentionParams& p) {
  p.mask = s.mask;
  if (s.window > 0) {
    p.mask = FOVEA_MASK_WINDOW;
    p.window_left = static_cast<int32_t>(s.window - 1);
    p.window_right = 0;
  }
  if (s.chunk > 0) {
    p.mask = FOVEA_MASK_CHUNK;
    p.chunk_size = s.chunk;
  }
}

// First key that the query at position p sees, and the one past the last.
int64_t first_key(const Shape& s, int64_t p) {
  if (s.window > 0) return std::max<int64_t>(0, p - s.window + 1);
  return s.chunk > 0 ? p / s.chunk * s.chunk : 0;
}
int64_t end_key(const Shape& s, int64_t p) {
  return s.mask == FOVEA_MASK_CAUSAL ? p + 1 : s.kv_len;
}

}  // namespace

AttentionParams attention_params(const Shape& s, Data& data) {
  AttentionParams p{.q = data.random(s.q_type, {s.tokens(), s.heads, s.head_dim}),
                    .out = data.output(s.output_type(), {s.tokens(), s.heads, s.d_v()}),
                    .cu_seqlens_q = data.steps(s.batch + 1, s.q_len),
                    .kv = make_kv(s, data),
                    .softcap = static_cast<float>(s.softcap),
                    .max_q_len = s.q_len,
                    .split_size = static_cast<int32_t>(s.split_size),
                    .batch_invariant = s.batch_invariant,
                    .chunk_invariant = s.chunk_invariant};
  set_mask(s, p);
  if (!s.kernel.empty()) p.kernel = data.keep(s.kernel)->c_str();
  if (s.lse) p.lse = data.output(FOVEA_F32, {s.tokens(), s.heads});
  if (s.alibi) p.alibi_slopes = data.random(FOVEA_F32, {s.heads});
  if (s.sinks) p.sinks = data.random(FOVEA_F32, {s.heads});
  if (s.mask_bits) {
    const int64_t words = (s.q_len + 31) / 32;
    p.mask_bits = data.index<uint32_t>({s.tokens(), words}, [&](uint32_t* bits) {
      for (int64_t i = 0; i < s.tokens() * words; ++i) bits[i] = static_cast<uint32_t>(data.rng().bits());
    });
    p.mask_lens = data.constants(s.batch, s.q_len);
  }
  return p;
}

Work attention_work(const Shape& s) {
  const int64_t first = s.kv_len - s.q_len;  // position of the first query
  double pairs = 0;
  for (int64_t p = first; p < s.kv_len; ++p) pairs += static_cast<double>(end_key(s, p) - first_key(s, p));
  const auto batch = static_cast<double>(s.batch), heads = static_cast<double>(s.heads);
  const auto rows = static_cast<double>(s.tokens()) * heads;
  const auto keys = static_cast<double>(s.kv_len - first_key(s, first));
  const auto d_k = static_cast<double>(s.head_dim), d_v = static_cast<double>(s.d_v());
  return {.bytes = bytes_of(s.q_type, rows * d_k) + bytes_of(s.output_type(), rows * d_v) +
                   (s.lse ? bytes_of(FOVEA_F32, rows) : 0) + batch * keys * token_bytes(s),
          .flops = batch * heads * pairs * 2 * (d_k + d_v)};
}

MergeStatesParams merge_states_params(const Shape& s, Data& data) {
  std::vector<Tensor> outs, lses;
  for (int64_t i = 0; i < s.parts; ++i) {
    outs.push_back(data.random(s.type, {s.tokens(), s.heads, s.head_dim}));
    lses.push_back(data.random(FOVEA_F32, {s.tokens(), s.heads}));
  }
  MergeStatesParams p{.parts = static_cast<int32_t>(s.parts),
                      .outs = data.keep(std::move(outs))->data(),
                      .lses = data.keep(std::move(lses))->data(),
                      .out = data.output(s.type, {s.tokens(), s.heads, s.head_dim})};
  if (s.lse) p.lse = data.output(FOVEA_F32, {s.tokens(), s.heads});
  if (s.sinks) p.sinks = data.random(FOVEA_F32, {s.heads});
  return p;
}

Work merge_states_work(const Shape& s) {
  const auto rows = static_cast<double>(s.tokens() * s.heads), parts = static_cast<double>(s.parts);
  const double elements = rows * static_cast<double>(s.head_dim);
  return {.bytes = bytes_of(s.type, elements * (parts + 1)) + bytes_of(FOVEA_F32, rows * (parts + (s.lse ? 1 : 0))),
          .flops = 2 * parts * elements};
}

}  // namespace fovea::bench
