// SPDX-License-Identifier: Apache-2.0
#include "ops/attention_values.h"

namespace fovea {

namespace {

std::string entry(const std::string& name, i64_t i) {
  return name + "[" + std::to_string(i) + "]";
}
std::string range(i64_t least, i64_t most) {
  return "must be in [" + std::to_string(least) + ", " + std::to_string(most) + "]";
}

const char* segment_name(const AttentionArgs& a, int s) {
  static constexpr const char* kNames[kMaxSegments] = {"kv[0]", "kv[1]", "kv[2]"};
  return a.spec.segments == 1 ? "kv" : kNames[s];
}
std::string field(const AttentionArgs& a, int s, const char* name) {
  return std::string(segment_name(a, s)) + "." + name;
}

// name(): the tensor's, made only for a complaint. v starts at 0, does not decrease, and ends at `last` or, where
// `exact` is false, at most there.
template <class Name>
Status check_cumulative(const IndexView& v, i64_t last, bool exact, const char* what, const Name& name) {
  const i64_t n = v.shape[0];
  for (i64_t i = 0, before = 0; i < n; ++i) {
    const i64_t x = index_at(v, i);
    if (i == 0 && x != 0) return invalid_value(entry(name(), 0), x, "must be 0");
    if (x < before)
      return invalid_value(entry(name(), i), x, "must not be less than the entry before, " + std::to_string(before));
    if (x > last)
      return invalid_value(entry(name(), i), x, "must be at most " + std::to_string(last) + " (" + what + ")");
    before = x;
  }
  const i64_t end = index_at(v, n - 1);
  if (exact && end != last) {
    return invalid_value(entry(name(), n - 1), end, "must be " + std::to_string(last) + " (" + what + ")");
  }
  return {};
}

Status check_queries(const AttentionArgs& a) {
  const AttentionSpec& s = a.spec;
  if (!s.padded) {
    FOVEA_TRY(
        check_cumulative(a.cu_seqlens_q, s.tokens, true, "tokens of q", [] { return std::string("cu_seqlens_q"); }));
    for (i64_t b = 0; b < s.batch; ++b) {
      const i64_t n = index_at(a.cu_seqlens_q, b + 1) - index_at(a.cu_seqlens_q, b);
      if (n <= s.max_q_len) continue;
      return invalid_value("cu_seqlens_q", "of " + std::to_string(n) + " queries in request " + std::to_string(b),
                           "max_q_len is " + std::to_string(s.max_q_len));
    }
    return {};
  }
  for (i64_t b = 0; b < s.batch; ++b) {
    const i64_t start = a.q_starts.given() ? index_at(a.q_starts, b) : 0;
    if (start < 0 || start > s.tokens) return invalid_value(entry("q_starts", b), start, range(0, s.tokens));
    const i64_t n = a.q_lens.given() ? index_at(a.q_lens, b) : s.tokens - start;
    const i64_t most = at_most(s.tokens - start, s.max_q_len);
    if (n >= 0 && n <= most) continue;
    if (a.q_lens.given()) return invalid_value(entry("q_lens", b), n, range(0, most));
    return invalid_value("max_q_len", s.max_q_len,
                         "request " + std::to_string(b) + " has " + std::to_string(n) + " queries");
  }
  return {};
}

// Lengths and starts of request b in segment s, against what its pages can hold.
Status check_lengths(const AttentionArgs& a, int s, i64_t b) {
  const KvView& kv = a.kv[s];
  const i64_t len = kv_len(kv, b), capacity = kv_capacity(kv, b);
  if (kv.kv_lens.given()) {
    const bool sharded = kv.spec.shard.world > 1;
    if (len < 0) return invalid_value(entry(field(a, s, "kv_lens"), b), len, "must not be negative");
    const i64_t held = shard_count(kv.spec.shard, len);
    const i64_t most = at_most(capacity, kv.spec.max_len);
    if (held > most) {
      return invalid_value(
          entry(field(a, s, "kv_lens"), b), len,
          sharded ? std::to_string(held) + " of them on this rank: " + range(0, most) : range(0, most));
    }
  } else if (len > kv.spec.max_len) {
    return invalid_value(field(a, s, "max_len"), kv.spec.max_len,
                         "request " + std::to_string(b) + " has " + std::to_string(len) + " tokens");
  }
  const i64_t start = kv_start(kv, b);
  if (start < 0 || start > len) {
    return invalid_value(entry(field(a, s, "starts"), b), start, range(0, len));
  }
  return {};
}

// Does any query of the request see one of the held tokens [first, last)?
bool any_row_sees(const AttentionArgs& a, const AttentionRequest& r, int s, Interval tokens) {
  for (i64_t t = r.active; t < r.active + r.q_len; ++t) {
    const Interval held = intersect(attention_held(a, r, s, attention_interval(a, r, t)), tokens);
    for (i64_t first = held.lo; first < held.hi; first += kTileKeys) {
      if (attention_visible(a, r, s, t, held, first)) return true;
    }
  }
  return false;
}

Status check_page_id(const AttentionArgs& a, const AttentionRequest& r, int s, const IndexView& table, const char* name,
                     i64_t column, i64_t token) {
  const KvView& kv = a.kv[s];
  const i64_t id = kv_page_id(kv, table, r.b, column);
  if (id >= 0 && id < kv.pages) return {};
  const bool csr = kv.spec.layout == KvLayout::paged_csr;
  std::string where = field(a, s, name);
  where = csr ? entry(where, index_at(kv.page_indptr, r.b) + column) : entry(entry(where, r.b), column);
  return invalid_value(where, id,
                       "must be in [0, " + std::to_string(kv.pages) + ") (request " + std::to_string(r.b) +
                           ", position " + std::to_string(attention_key_position(a, r, s, token)) + ")");
}

// Page ids of the tokens that some query sees. Consecutive queries see consecutive intervals, so that their union is
// one; packed bits can hide pages inside it, which are then looked into one by one.
Status check_pages(const AttentionArgs& a, const AttentionRequest& r, int s) {
  const KvView& kv = a.kv[s];
  if (kv.spec.layout != KvLayout::paged && kv.spec.layout != KvLayout::paged_csr) return {};
  Interval seen = {r.segment[s].held, 0};
  for (i64_t t = r.active; t < r.active + r.q_len; ++t) {
    const Interval held = attention_held(a, r, s, attention_interval(a, r, t));
    if (!held.empty()) seen = {at_most(seen.lo, held.lo), at_least(seen.hi, held.hi)};
  }
  if (seen.empty()) return {};
  const i64_t size = kv.spec.page_size;
  for (i64_t column = seen.lo / size; column * size < seen.hi; ++column) {
    const Interval tokens = intersect(seen, {column * size, (column + 1) * size});
    if (a.mask_bits.given() && !any_row_sees(a, r, s, tokens)) continue;
    FOVEA_TRY(check_page_id(a, r, s, kv.page_table, "page_table", column, tokens.lo));
    if (kv.v_page_table.given()) FOVEA_TRY(check_page_id(a, r, s, kv.v_page_table, "v_page_table", column, tokens.lo));
  }
  return {};
}

Status check_request(const AttentionArgs& a, i64_t b) {
  for (int s = 0; s < a.spec.segments; ++s) FOVEA_TRY(check_lengths(a, s, b));
  const AttentionRequest r = attention_request(a, b);
  if (a.mask_lens.given()) {
    const i64_t most = 32 * a.mask_bits.shape[2];
    if (r.mask_len < 0 || r.mask_len > most) return invalid_value(entry("mask_lens", b), r.mask_len, range(0, most));
  }
  for (int s = 0; s < a.spec.segments; ++s) FOVEA_TRY(check_pages(a, r, s));
  return {};
}

}  // namespace

Status check_attention_values(const AttentionArgs& a) {
  FOVEA_TRY(check_queries(a));
  for (int s = 0; s < a.spec.segments; ++s) {
    const KvView& kv = a.kv[s];
    if (kv.cu_seqlens_kv.given()) {
      FOVEA_TRY(check_cumulative(kv.cu_seqlens_kv, kv.spec.page_size, false, "page_size",
                                 [&] { return field(a, s, "cu_seqlens_kv"); }));
    }
    if (kv.page_indptr.given()) {
      FOVEA_TRY(check_cumulative(kv.page_indptr, kv.page_table.shape[0], false, "entries of page_table",
                                 [&] { return field(a, s, "page_indptr"); }));
    }
  }
  for (i64_t b = 0; b < a.spec.batch; ++b) FOVEA_TRY(check_request(a, b));
  return {};
}

}  // namespace fovea
