// SPDX-License-Identifier: Apache-2.0
// kv_append, kv_copy and rope.
#include <algorithm>
#include <vector>

#include "bench/case.h"
#include "bench/cases/kv.h"

namespace fovea::bench {

namespace {

RopeConfig rope_config(const Shape& s) {
  return {.style = s.rope_style, .rotary_dim = static_cast<int32_t>(s.rotary_dim)};
}

// Each sequence writes its new tokens behind one another, from a random position on, through a random page table.
Tensor make_slots(const Shape& s, Data& data, const Paging& paging) {
  return data.index<int64_t>({s.tokens()}, [&](int64_t* slots) {
    const std::vector<int32_t> table = data.shuffled(s.batch * paging.per_sequence);
    const int32_t* pages = table.data();
    for (int64_t b = 0; b < s.batch; ++b) {
      const int64_t start = data.rng().below(s.kv_len - s.q_len + 1);
      for (int64_t t = start; t < start + s.q_len; ++t) {
        *slots++ = pages[b * paging.per_sequence + t / paging.page_size] * paging.page_size + t % paging.page_size;
      }
    }
  });
}

}  // namespace

KvAppendParams kv_append_params(const Shape& s, Data& data) {
  const Paging paging(s);
  KvAppendParams p{
      .k = data.random(s.type, {s.tokens(), s.kv_heads, s.head_dim}),
      .kv = data.keep(make_cache(s, data, paging.page_size, s.batch * paging.per_sequence, Reuse::kCommon)),
      .slot_mapping = make_slots(s, data, paging)};
  if (!s.v_in_k) p.v = data.random(s.type, {s.tokens(), s.kv_heads, s.d_v()});
  if (s.rope || s.qk_norm) {
    p.q = data.random(s.type, {s.tokens(), s.heads, s.head_dim});
    p.q_out = data.output(s.type, {s.tokens(), s.heads, s.head_dim});
  }
  if (s.qk_norm) {
    p.q_norm_weight = data.random(s.type, {s.head_dim});
    p.k_norm_weight = data.random(s.type, {s.head_dim});
  }
  if (s.rope) {
    p.rope = data.keep(rope_config(s));
    p.positions = data.steps(s.tokens(), 1);
  }
  return p;
}

Work kv_append_work(const Shape& s) {
  const auto tokens = static_cast<double>(s.tokens());
  const auto k = static_cast<double>(s.kv_heads * s.head_dim), v = static_cast<double>(s.kv_heads * s.d_v());
  const auto q = static_cast<double>(s.heads * s.head_dim);
  Work work{.bytes = tokens * (bytes_of(s.type, k + (s.v_in_k ? 0 : v)) + token_bytes(s))};
  if (s.rope || s.qk_norm) {
    work.bytes += bytes_of(s.type, 2 * tokens * q);
    const double turned = s.rotary_dim ? static_cast<double>(s.rotary_dim) / static_cast<double>(s.head_dim) : 1;
    work.flops = tokens * (q + k) * ((s.rope ? 3 * turned : 0) + (s.qk_norm ? 4 : 0));
  }
  return work;
}

KvCopyParams kv_copy_params(const Shape& s, Data& data) {
  const int64_t page_size = std::max<int64_t>(s.page_size, 1);
  const Kv* kv = data.keep(make_cache(s, data, page_size, 2 * s.pages, Reuse::kPerSet));
  return {.src = kv, .dst = kv, .copies = data.permutation(s.pages, 2)};
}

Work kv_copy_work(const Shape& s) {
  const auto tokens = static_cast<double>(s.pages * std::max<int64_t>(s.page_size, 1));
  return {.bytes = 2 * tokens * token_bytes(s)};
}

RopeParams rope_params(const Shape& s, Data& data) {
  return {.x = data.random(s.type, {s.tokens(), s.heads, s.head_dim}),
          .out = data.output(s.type, {s.tokens(), s.heads, s.head_dim}),
          .positions = data.steps(s.tokens(), 1),
          .config = data.keep(rope_config(s))};
}

Work rope_work(const Shape& s) {
  const auto rows = static_cast<double>(s.tokens() * s.heads);
  const auto turned = static_cast<double>(s.rotary_dim ? s.rotary_dim : s.head_dim);
  return {.bytes = bytes_of(s.type, 2 * rows * static_cast<double>(s.head_dim)), .flops = 3 * rows * turned};
}

}  // namespace fovea::bench
