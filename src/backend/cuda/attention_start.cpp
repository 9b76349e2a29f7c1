// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/blocks.h"

namespace fovea::cuda {

namespace {

int saturate(i64_t n, i64_t most) {
  return static_cast<int>(at_least(at_most(n, most), 0));
}

void set_column(AttentionStart& s, Column column, const IndexView& v) {
  if (!v.given()) return;
  const auto i = static_cast<size_t>(column);
  s.column[i] = {static_cast<const char*>(v.data), v.stride[0] * v.block_bytes};
  if (v.dtype == Dtype::i64) s.wide |= 1u << i;
}

void set_keys(AttentionStart& s, const KvView& kv, bool aligned) {
  const KvSpec& spec = kv.spec;
  const bool csr = spec.layout == KvLayout::paged_csr, paged = csr || spec.layout == KvLayout::paged;
  s.kv_heads = spec.heads;
  s.d_k = spec.d_k;
  s.d_v = spec.d_v;
  s.max_len = saturate(spec.max_len, kMostKeys);
  s.page_size = spec.page_size;
  const auto size = static_cast<unsigned>(spec.page_size);
  if (size > 0 && (size & (size - 1)) == 0) s.page_shift = __builtin_ctz(size);
  set_column(s, Column::kv_lens, kv.kv_lens);
  set_column(s, Column::kv_starts, kv.starts);
  if (csr) {
    set_column(s, Column::kv_offsets, kv.page_indptr);
    s.limit = kv.page_table.shape[0];
    s.unit = spec.page_size;
  } else if (spec.layout == KvLayout::ragged) {
    set_column(s, Column::kv_offsets, kv.cu_seqlens_kv);
    s.limit = spec.page_size;
  } else {
    const int64_t columns = paged ? kv.page_table.shape[1] : 1;
    s.capacity = saturate(at_most(columns, kMostKeys) * spec.page_size, kMostKeys);
  }
  if (paged) {
    const IndexView* tables[2] = {&kv.page_table, kv.v_page_table.given() ? &kv.v_page_table : &kv.page_table};
    for (int side = 0; side < 2; ++side) {
      const auto column = static_cast<Column>(static_cast<int>(Column::pages) + side);
      set_column(s, column, *tables[side]);
      s.page_id[side] = tables[side]->stride[csr ? 0 : 1] * tables[side]->block_bytes;
    }
    s.page_count = kv.pages;
  }
  const KvStream* streams[2] = {&kv.k, &kv.v};
  for (int side = 0; side < 2; ++side) {
    s.base[side] = streams[side]->base;
    s.head[side] = streams[side]->head_stride;
    s.page[side] = streams[side]->page_stride;
    s.token[side] = streams[side]->token_stride;
  }
  s.simple = aligned && spec.d_rope == 0 && (!paged || s.page_shift >= 4);
}

}  // namespace

AttentionStart attention_start(const AttentionArgs& args, bool align, bool q_align) {
  AttentionStart s;
  set_column(s, Column::cu_seqlens_q, args.cu_seqlens_q);
  set_column(s, Column::q_lens, args.q_lens);
  set_column(s, Column::q_starts, args.q_starts);
  s.batch = saturate(args.spec.batch, kMostKeys);
  s.tokens = saturate(args.spec.tokens, kMostKeys);
  s.padded = args.spec.padded;
  s.group = make_divider(args.spec.group);
  Band band;
  mask_band(args.spec.mask, band);
  const auto bound = [](int64_t n) { return static_cast<int>(n < 0 ? kMostKeys - 1 : at_most(n, kMostKeys - 1)); };
  s.left = bound(band.left);
  s.right = bound(band.right);
  set_keys(s, args.kv[0], align);
  s.q_type = args.spec.q;
  s.q_simple = q_align;
  s.q = static_cast<char*>(args.q.data);
  s.q_batch = args.spec.padded ? args.q.stride[0] * args.q.block_bytes : 0;
  s.q_token = args.q.stride[1] * args.q.block_bytes;
  s.q_head = args.q.stride[2] * args.q.block_bytes;
  return s;
}

}  // namespace fovea::cuda
