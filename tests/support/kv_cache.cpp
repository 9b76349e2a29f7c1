// SPDX-License-Identifier: Apache-2.0
#include "support/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "oracle/kv64.h"
#include "oracle/numbers.h"

namespace fovea::test {
namespace {

using oracle::bytes_of;
using oracle::codec_dtype;

// Tokens below `len` that the shard holds.
int64_t local_len(const KvSpec& s, int64_t len) {
  int64_t n = 0;
  for (int64_t t = 0; t < len; ++t) n += t / s.shard_interleave % s.shard_world == s.shard_rank;
  return n;
}

int64_t groups(const SideSpec& side, int64_t dims) {
  return side.scale_kind == FOVEA_SCALE_GROUP ? (dims + side.scale_group - 1) / side.scale_group : 1;
}

bool per_token(const SideSpec& side) {
  return side.scale_kind == FOVEA_SCALE_TOKEN_HEAD || side.scale_kind == FOVEA_SCALE_GROUP;
}

// fp8 gets small scales, so that its stored values spread over the range of the type.
double scale_for(const SideSpec& side, Rng& rng) {
  return (0.5 + rng.uniform()) * (side.codec == FOVEA_CODEC_FP8 ? 0x1p-4 : 1.0);
}

// What a page table holds where no needed token lies.
int64_t garbage(Rng& rng, int64_t pages, int32_t dtype) {
  if (dtype == FOVEA_I64 && rng.chance(0.3)) return rng.pick<int64_t>({INT64_MIN, INT64_MAX, int64_t{1} << 40});
  return rng.pick<int64_t>({-1, INT32_MAX, INT32_MIN, pages, pages + 7, 0});
}

}  // namespace

const char* name_of(KvLayout layout) {
  constexpr const char* kNames[] = {"nhd",       "hnd",         "halves",         "joint_hnd",
                                    "joint_nhd", "one_pool",    "scales_in_page", "record",
                                    "reversed",  "shared_heads"};
  return kNames[static_cast<int>(layout)];
}

std::byte* KvCache::buffer(int64_t bytes) {
  memory_.emplace_back(static_cast<size_t>(bytes), spec_.place);
  return memory_.back().data();
}

KvCache::KvCache(const KvSpec& spec, Rng& rng, const Needed& needed)
    : spec_(spec), batch_(static_cast<int64_t>(spec.lens.size())) {
  kv_.heads = spec.heads;
  kv_.d_k = spec.d_k;
  kv_.d_v = spec.d_v;
  kv_.v_in_k = spec.v_in_k;
  kv_.d_rope = spec.d_rope;
  kv_.rope_dtype = spec.d_rope ? spec.rope_dtype : 0;
  kv_.shard_world = spec.shard_world;
  kv_.shard_rank = spec.shard_rank;
  kv_.shard_interleave = spec.shard_interleave;
  kv_.page_size = spec.page_size;
  int64_t longest = 0, total = 0;
  for (int64_t len : spec.lens) {
    longest = std::max(longest, local_len(spec, len));
    total += local_len(spec, len);
  }
  if (spec.index == KvIndex::contiguous)
    kv_.page_size = static_cast<int32_t>(std::max<int64_t>(1, longest + spec.spare_pages));
  if (spec.index == KvIndex::ragged) kv_.page_size = static_cast<int32_t>(std::max<int64_t>(1, total));
  columns_ = (longest + kv_.page_size - 1) / kv_.page_size;
  make_indices(rng, needed);
  make_streams(rng);
}

void KvCache::make_indices(Rng& rng, const Needed& needed) {
  const int32_t dtype = spec_.index_dtype;
  kv_lens = indices(spec_.lens, dtype, {batch_});
  starts = spec_.starts.empty() ? TensorBox() : indices(spec_.starts, dtype, {batch_});
  kv_.starts = starts;
  if (spec_.index == KvIndex::ragged) {
    std::vector<int64_t> cu{0};
    for (int64_t len : spec_.lens) cu.push_back(cu.back() + len);
    cu_seqlens_kv = indices(cu, dtype);
    kv_.cu_seqlens_kv = cu_seqlens_kv;
    kv_.pages = 1;
    return;
  }
  kv_.kv_lens = kv_lens;
  if (spec_.index == KvIndex::contiguous) {
    kv_.pages = batch_;
    return;
  }
  const bool apart = spec_.v_table || spec_.layout == KvLayout::one_pool;
  std::vector<int64_t> indptr{0};
  for (int64_t len : spec_.lens)
    indptr.push_back(indptr.back() + (local_len(spec_, len) + kv_.page_size - 1) / kv_.page_size);
  kv_.pages = indptr.back() * (apart ? 2 : 1) + spec_.spare_pages;
  const std::vector<int64_t> ids = rng.distinct(kv_.pages, kv_.pages);
  const bool csr = spec_.index == KvIndex::csr;
  const int64_t width = csr ? 0 : columns_ + spec_.spare_pages;
  std::vector<int64_t> k_ids(static_cast<size_t>(csr ? indptr.back() : batch_ * width));
  for (int64_t& id : k_ids) id = garbage(rng, kv_.pages, dtype);
  std::vector<int64_t> v_ids = k_ids;
  std::vector<bool> placed(k_ids.size(), false);
  size_t next = 0;
  for (int64_t b = 0; b < batch_; ++b) {
    for (int64_t t = 0; t < spec_.lens[static_cast<size_t>(b)]; ++t) {
      if (!oracle::kv_holds(kv_, t) || !needed(b, t)) continue;
      const int64_t column = oracle::kv_local(kv_, t) / kv_.page_size;
      const auto entry = static_cast<size_t>((csr ? indptr[static_cast<size_t>(b)] : b * width) + column);
      if (placed[entry]) continue;
      placed[entry] = true;
      k_ids[entry] = ids[next++];
      v_ids[entry] = apart ? ids[next++] : k_ids[entry];
    }
  }
  const std::vector<int64_t> shape = csr ? std::vector<int64_t>{indptr.back()} : std::vector<int64_t>{batch_, width};
  page_table = indices(k_ids, dtype, shape);
  kv_.page_table = page_table;
  if (apart) v_page_table = indices(v_ids, dtype, shape);
  kv_.v_page_table = v_page_table;
  if (csr) page_indptr = indices(indptr, dtype);
  kv_.page_indptr = page_indptr;
}

void KvCache::make_scales(Rng& rng, const SideSpec& side, fovea_kv_side& out, bool apart) {
  out.codec = side.codec;
  out.scale_kind = side.scale_kind;
  if (side.scale_kind == FOVEA_SCALE_NONE) return;
  out.scale_dtype = side.scale_dtype;
  out.scale_group = side.scale_kind == FOVEA_SCALE_GROUP ? side.scale_group : 0;
  const int64_t bytes = bytes_of(side.scale_dtype);
  if (!per_token(side)) {
    const int64_t n = side.scale_kind == FOVEA_SCALE_HEAD ? spec_.heads : 1;
    out.scale.base = buffer(n * bytes);
    if (side.scale_kind == FOVEA_SCALE_HEAD) out.scale.head_stride = bytes;
    for (int64_t h = 0; h < n; ++h)
      oracle::encode(side.scale_dtype, oracle::scale_address(out, {0, 0}, h, 0), scale_for(side, rng));
    return;
  }
  if (!apart) return;  // the layout has placed them
  const int64_t dims = &out == &kv_.k ? spec_.d_k - spec_.d_rope : spec_.d_v;
  const int64_t head = groups(side, dims) * bytes;
  const int64_t token = head * spec_.heads;
  out.scale = {buffer(kv_.pages * kv_.page_size * token), kv_.page_size * token, token, head};
}

bool KvCache::in_records() const {
  return oracle::grid_of(spec_.k.codec) != nullptr || (!spec_.v_in_k && oracle::grid_of(spec_.v.codec) != nullptr);
}

void KvCache::make_records(Rng& rng) {
  kv_.prescale = spec_.prescale;
  make_scales(rng, spec_.k, kv_.k, false);
  if (!spec_.v_in_k) make_scales(rng, spec_.v, kv_.v, false);
  int64_t bytes = 0;
  if (fovea_kv_record(&kv_, nullptr, &bytes) != FOVEA_OK) throw std::runtime_error(fovea_last_error());
  fovea_kv_record(&kv_, buffer(bytes), nullptr);
}

void KvCache::make_streams(Rng& rng) {
  if (in_records()) return make_records(rng);
  const int64_t P = kv_.pages, T = kv_.page_size, H = spec_.heads, pad = spec_.page_pad;
  const int64_t kb = (spec_.d_k - spec_.d_rope) * bytes_of(codec_dtype(spec_.k.codec));
  const int64_t vb = spec_.v_in_k ? 0 : spec_.d_v * bytes_of(codec_dtype(spec_.v.codec));
  const int64_t rb = spec_.d_rope ? spec_.d_rope * bytes_of(spec_.rope_dtype) : 0;
  const bool with_v = !spec_.v_in_k;
  const auto extent = [&](int64_t page, int64_t used) { return P ? (P - 1) * page + used : 0; };
  fovea_kv_stream k, v, rope;
  bool scales_apart = true;
  const auto own = [&](int64_t bytes, bool heads_first) -> fovea_kv_stream {
    const int64_t page = T * H * bytes + pad;
    std::byte* base = buffer(extent(page, T * H * bytes));
    return heads_first ? fovea_kv_stream{base, page, bytes, T * bytes} : fovea_kv_stream{base, page, H * bytes, bytes};
  };
  switch (spec_.layout) {
    case KvLayout::nhd:
    case KvLayout::hnd: {
      k = own(kb, spec_.layout == KvLayout::hnd);
      if (with_v) v = own(vb, spec_.layout == KvLayout::hnd);
      break;
    }
    case KvLayout::halves: {
      std::byte* base = buffer(P * T * H * (kb + vb));
      k = {base, T * H * kb, H * kb, kb};
      v = {base + P * T * H * kb, T * H * vb, H * vb, vb};
      break;
    }
    case KvLayout::joint_hnd:
    case KvLayout::joint_nhd: {
      const int64_t row = kb + vb, page = T * H * row + pad;
      std::byte* base = buffer(extent(page, T * H * row));
      const bool heads_first = spec_.layout == KvLayout::joint_hnd;
      k = {base, page, heads_first ? row : H * row, heads_first ? T * row : row};
      v = {base + kb, k.page_stride, k.token_stride, k.head_stride};
      break;
    }
    case KvLayout::one_pool: {
      const int64_t row = std::max(kb, vb);
      k = own(row, true);
      v = k;
      break;
    }
    case KvLayout::scales_in_page: {
      const int64_t ks = groups(spec_.k, spec_.d_k) * bytes_of(spec_.k.scale_dtype);
      const int64_t vs = groups(spec_.v, spec_.d_v) * bytes_of(spec_.v.scale_dtype);
      const int64_t page = T * H * (kb + vb + ks + vs) + pad;
      std::byte* base = buffer(extent(page, T * H * (kb + vb + ks + vs)));
      k = {base, page, kb, T * kb};
      v = {base + T * H * kb, page, vb, T * vb};
      kv_.k.scale = {base + T * H * (kb + vb), page, ks, T * ks};
      kv_.v.scale = {base + T * H * (kb + vb + ks), page, vs, T * vs};
      scales_apart = false;
      break;
    }
    case KvLayout::record: {
      const int64_t ks =
          per_token(spec_.k) ? groups(spec_.k, spec_.d_k - spec_.d_rope) * bytes_of(spec_.k.scale_dtype) : 0;
      const int64_t row = kb + ks + rb, page = T * H * row + pad;
      std::byte* base = buffer(extent(page, T * H * row));
      k = {base, page, H * row, row};
      if (ks) kv_.k.scale = {base + kb, page, H * row, row};
      if (rb) rope = {base + kb + ks, page, H * row, row};
      scales_apart = false;
      break;
    }
    case KvLayout::reversed: {
      const auto flip = [&](fovea_kv_stream s) -> fovea_kv_stream {
        auto* last = static_cast<std::byte*>(s.base) + (P - 1) * s.page_stride + (T - 1) * s.token_stride +
                     (H - 1) * s.head_stride;
        return {P ? last : s.base, -s.page_stride, -s.token_stride, -s.head_stride};
      };
      k = flip(own(kb, false));
      if (with_v) v = flip(own(vb, false));
      break;
    }
    case KvLayout::shared_heads: {
      k = {buffer(P * T * kb), T * kb, kb, 0};
      if (with_v) v = {buffer(P * T * vb), T * vb, vb, 0};
      break;
    }
  }
  if (rb && spec_.layout != KvLayout::record) rope = own(rb, false);
  kv_.k.data = k;
  kv_.k_rope = rope;
  make_scales(rng, spec_.k, kv_.k, scales_apart);
  if (!with_v) return;
  kv_.v.data = v;
  make_scales(rng, spec_.v, kv_.v, scales_apart);
}

void KvCache::write(int64_t b, int64_t t, const std::vector<double>& k, const std::vector<double>& v, Rng& rng) const {
  const auto side = [&](const SideSpec& spec, const fovea_kv_side& out, oracle::Slot slot, const double* x, int64_t h,
                        int64_t dims) {
    if (oracle::grid_of(out.codec) != nullptr) return oracle::write_vector(kv_, out, slot, h, x, dims);
    const int32_t dtype = codec_dtype(out.codec);
    for (int64_t d = 0; d < dims; ++d) {
      double scale = 1;
      if (out.scale_kind != FOVEA_SCALE_NONE) {
        std::byte* at = oracle::scale_address(out, slot, h, d);
        const bool first = out.scale_kind == FOVEA_SCALE_GROUP ? d % out.scale_group == 0 : d == 0;
        if (per_token(spec) && first) oracle::encode(out.scale_dtype, at, scale_for(spec, rng));
        scale = oracle::decode(out.scale_dtype, at);
      }
      oracle::encode(dtype, oracle::kv_address(out.data, slot, h) + d * bytes_of(dtype), x[d] / scale);
    }
  };
  const oracle::Slot k_slot = oracle::kv_slot(kv_, b, t, false);
  for (int64_t h = 0; h < spec_.heads; ++h) {
    const double* x = k.data() + h * spec_.d_k;
    const int64_t main = spec_.d_k - spec_.d_rope;
    side(spec_.k, kv_.k, k_slot, x, h, main);
    for (int64_t d = 0; d < spec_.d_rope; ++d) {
      oracle::encode(spec_.rope_dtype, oracle::kv_address(kv_.k_rope, k_slot, h) + d * bytes_of(spec_.rope_dtype),
                     x[main + d]);
    }
    if (!spec_.v_in_k) side(spec_.v, kv_.v, oracle::kv_slot(kv_, b, t, true), v.data() + h * spec_.d_v, h, spec_.d_v);
  }
}

std::vector<std::byte> KvCache::bytes() const {
  std::vector<std::byte> all;
  for (const Guarded& m : memory_) all.insert(all.end(), m.data(), m.data() + m.size());
  return all;
}

void fill(const KvCache& cache, const KvSpec& spec, Rng& rng, Values k, Values v, const Needed& needed) {
  for (int64_t b = 0; b < static_cast<int64_t>(spec.lens.size()); ++b) {
    for (int64_t t = 0; t < spec.lens[static_cast<size_t>(b)]; ++t) {
      if (!oracle::kv_holds(cache.kv(), t) || !needed(b, t)) continue;
      cache.write(b, t, draw(rng, k, spec.heads, spec.d_k), draw(rng, v, spec.heads, spec.d_v), rng);
    }
  }
}

}  // namespace fovea::test
