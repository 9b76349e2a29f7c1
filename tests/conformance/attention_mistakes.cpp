// SPDX-License-Identifier: Apache-2.0
#include "conformance/attention_mistakes.h"

#include <cstring>
#include <limits>

namespace fovea::test {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

// Another kind of mask, without the fields of the one before.
void only(fovea_attention_params& p, int32_t mask) {
  p.mask = mask;
  p.window_left = p.window_right = -1;
  p.chunk_size = p.chunk_origin = 0;
}

}  // namespace

AttentionCase base_case(Base base) {
  AttentionCase c = simple_case({2, 3}, {20, 33}, 4, 2, 32, 32);
  c.options.mask = FOVEA_MASK_CAUSAL;
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;  // cards take no f32
  c.padded = base == Base::padded;
  c.pad_front = c.padded;
  if (base == Base::csr) c.kv[0].index = KvIndex::csr;
  if (base == Base::contiguous) c.kv[0].index = KvIndex::contiguous;
  if (base == Base::ragged_kv) c.kv[0].index = KvIndex::ragged;
  if (base == Base::fp8) c.kv[0].k = c.kv[0].v = {FOVEA_CODEC_FP8, FOVEA_SCALE_HEAD, FOVEA_F32, 0};
  if (base == Base::bits) c.mask_lens = {10, 33};
  if (base == Base::mla) c.kv[0].v_in_k = true;
  return c;
}

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      // Tensors of the call.
      {"q of integers", Base::any, [](Wrong& w) { w.p.q.dtype = FOVEA_I32; }, {"q"}, FOVEA_INVALID_TYPE},
      {"q absent", Base::any, [](Wrong& w) { w.p.q = {}; }, {"q"}, FOVEA_OK},
      {"q of rank 2", Base::any, [](Wrong& w) { w.p.q.rank = 2; }, {"q"}},
      {"q with gaps", Base::any, [](Wrong& w) { w.p.q.stride[w.p.q.rank - 1] = 2; }, {"q"}, FOVEA_OK},
      {"q on another kind of device", Base::any, [](Wrong& w) { w.p.q.device_type = FOVEA_METAL; }, {"q"}, FOVEA_OK},
      {"q of another d", Base::any, [](Wrong& w) { w.p.q.shape[w.p.q.rank - 1] -= 1; }, {"q", "d_k"}},
      {"q negative", Base::any, [](Wrong& w) { w.p.q.shape[0] = -1; }, {"q"}},
      {"out of bytes", Base::any, [](Wrong& w) { w.p.out.dtype = FOVEA_U8; }, {"out"}, FOVEA_INVALID_TYPE},
      {"out absent", Base::any, [](Wrong& w) { w.p.out = {}; }, {"out"}, FOVEA_OK},
      {"out of another d", Base::any, [](Wrong& w) { w.p.out.shape[w.p.out.rank - 1] += 1; }, {"out"}},
      {"out of other heads", Base::any, [](Wrong& w) { w.p.out.shape[w.p.out.rank - 2] += 1; }, {"out"}},
      {"out null", Base::ragged, [](Wrong& w) { w.p.out.data = nullptr; }, {"out"}},
      {"q null", Base::ragged, [](Wrong& w) { w.p.q.data = nullptr; }, {"q"}},
      {"lse in half", Base::ragged, [](Wrong& w) { w.p.lse.dtype = FOVEA_F16; }, {"lse"}, FOVEA_INVALID_TYPE},
      {"lse of another shape", Base::ragged, [](Wrong& w) { w.p.lse.shape[1] = 3; }, {"lse"}},
      {"a struct too short", Base::any, [](Wrong& w) { w.p.struct_size = 8; }, {"struct_size"}},
      {"a struct from the future",
       Base::any,
       [](Wrong& w) {
         constexpr int64_t kSize = sizeof(fovea_kv);
         auto& bytes = w.extra.emplace_back(FOVEA_U8, std::vector<int64_t>{kSize + 8});  // the tail is 0xFF
         std::memcpy(bytes.at(0), &w.kv, kSize);
         auto* kv = static_cast<fovea_kv*>(bytes.at(0));
         kv->struct_size += 8;
         w.p.kv = kv;
         w.p.kv_segments = 1;
       },
       {"struct_size"}},
      // Query lengths.
      {"no cu_seqlens_q", Base::ragged, [](Wrong& w) { w.p.cu_seqlens_q = {}; }, {"cu_seqlens_q"}, FOVEA_OK},
      {"cu_seqlens_q decreasing",
       Base::ragged,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.index({0, 6, 5});
       },
       {"cu_seqlens_q", "6"},
       FOVEA_INVALID_VALUE,
       true},
      {"cu_seqlens_q starts late",
       Base::ragged,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.index({1, 2, 5});
       },
       {"cu_seqlens_q", "1"},
       FOVEA_INVALID_VALUE,
       true},
      {"cu_seqlens_q negative",
       Base::ragged,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.index({0, -2, 5});
       },
       {"cu_seqlens_q", "-2"},
       FOVEA_INVALID_VALUE,
       true},
      {"cu_seqlens_q ends early",
       Base::ragged,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.index({0, 2, 4});
       },
       {"cu_seqlens_q", "4"},
       FOVEA_INVALID_VALUE,
       true},
      {"cu_seqlens_q of floats",
       Base::ragged,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.number({0, 2, 5});
       },
       {"cu_seqlens_q"},
       FOVEA_INVALID_TYPE},
      {"cu_seqlens_q of another batch",
       Base::ragged,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.index({0, 2, 3, 5});
       },
       {}},
      {"cu_seqlens_q beside padding",
       Base::padded,
       [](Wrong& w) {
         w.p.cu_seqlens_q = w.index({0, 2, 5});
       },
       {"cu_seqlens_q"},
       FOVEA_OK},
      {"q_lens beside ragged",
       Base::ragged,
       [](Wrong& w) {
         w.p.q_lens = w.index({2, 3});
       },
       {"q_lens"},
       FOVEA_OK},
      {"q_starts beside ragged",
       Base::ragged,
       [](Wrong& w) {
         w.p.q_starts = w.index({0, 0});
       },
       {"q_starts"},
       FOVEA_OK},
      {"q_lens negative",
       Base::padded,
       [](Wrong& w) {
         w.p.q_lens = w.index({2, -3});
       },
       {"q_lens", "-3"},
       FOVEA_INVALID_VALUE,
       true},
      {"q_lens too long",
       Base::padded,
       [](Wrong& w) {
         w.p.q_lens = w.index({2, 99});
       },
       {"q_lens", "99"},
       FOVEA_INVALID_VALUE,
       true},
      {"q_starts negative",
       Base::padded,
       [](Wrong& w) {
         w.p.q_starts = w.index({-1, 0});
       },
       {"q_starts", "-1"},
       FOVEA_INVALID_VALUE,
       true},
      {"max_q_len too small",
       Base::ragged,
       [](Wrong& w) { w.p.max_q_len = 2; },
       {"max_q_len"},
       FOVEA_INVALID_VALUE,
       true},
      {"max_q_len negative", Base::any, [](Wrong& w) { w.p.max_q_len = -1; }, {"max_q_len", "-1"}},
      // Options.
      {"mask unknown", Base::any, [](Wrong& w) { w.p.mask = 17; }, {"mask", "17"}},
      {"window_left below -1",
       Base::any,
       [](Wrong& w) { only(w.p, FOVEA_MASK_WINDOW), w.p.window_left = -2; },
       {"window_left", "-2"}},
      {"window_right below -1",
       Base::any,
       [](Wrong& w) { only(w.p, FOVEA_MASK_WINDOW), w.p.window_right = -7; },
       {"window_right", "-7"}},
      {"window_left without a window", Base::ragged, [](Wrong& w) { w.p.window_left = 4; }, {"window_left"}, FOVEA_OK},
      {"window_right without a window",
       Base::ragged,
       [](Wrong& w) { w.p.window_right = 4; },
       {"window_right"},
       FOVEA_OK},
      {"chunk without a size", Base::ragged, [](Wrong& w) { only(w.p, FOVEA_MASK_CHUNK); }, {"chunk_size"}},
      {"chunk negative",
       Base::any,
       [](Wrong& w) { only(w.p, FOVEA_MASK_CHUNK), w.p.chunk_size = -4; },
       {"chunk_size", "-4"}},
      {"chunk_size without chunks", Base::ragged, [](Wrong& w) { w.p.chunk_size = 4; }, {"chunk_size"}, FOVEA_OK},
      {"chunk_origin without chunks", Base::ragged, [](Wrong& w) { w.p.chunk_origin = 4; }, {"chunk_origin"}, FOVEA_OK},
      {"softcap negative", Base::any, [](Wrong& w) { w.p.softcap = -1; }, {"softcap", "-1"}},
      {"softcap NaN", Base::any, [](Wrong& w) { w.p.softcap = kNan; }, {"softcap"}},
      {"softcap infinite", Base::any, [](Wrong& w) { w.p.softcap = kInfinity; }, {"softcap"}},
      {"scale NaN", Base::any, [](Wrong& w) { w.p.scale = kNan; }, {"scale"}},
      {"scale infinite", Base::any, [](Wrong& w) { w.p.scale = kInfinity; }, {"scale"}},
      {"q_scale of f32", Base::ragged, [](Wrong& w) { w.p.q_scale = 2; }, {"q_scale"}, FOVEA_OK},
      {"out_scale of f32", Base::ragged, [](Wrong& w) { w.p.out_scale = 2; }, {"out_scale"}, FOVEA_OK},
      {"q_scale NaN", Base::any, [](Wrong& w) { w.p.q_scale = kNan; }, {"q_scale"}, FOVEA_OK},
      {"out_scale zero", Base::any, [](Wrong& w) { w.p.out_scale = 0; }, {"out_scale"}, FOVEA_OK},
      {"split_size negative", Base::any, [](Wrong& w) { w.p.split_size = -1; }, {"split_size", "-1"}},
      {"batch_invariant 2", Base::any, [](Wrong& w) { w.p.batch_invariant = 2; }, {"batch_invariant", "2"}},
      {"chunk_invariant -1", Base::any, [](Wrong& w) { w.p.chunk_invariant = -1; }, {"chunk_invariant", "-1"}},
      {"kernel unknown",
       Base::any,
       [](Wrong& w) { w.p.kernel = "no_such_kernel"; },
       {"kernel", "no_such_kernel"},
       FOVEA_OK},
      {"slopes of other heads",
       Base::any,
       [](Wrong& w) {
         w.p.alibi_slopes = w.number({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
       },
       {"alibi_slopes"}},
      {"slopes in half",
       Base::ragged,
       [](Wrong& w) {
         w.p.alibi_slopes = w.number({1, 2, 3, 4}, FOVEA_F16);
       },
       {"alibi_slopes"},
       FOVEA_INVALID_TYPE},
      {"sinks of other heads",
       Base::any,
       [](Wrong& w) {
         w.p.sinks = w.number({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
       },
       {"sinks"}},
      {"sinks of integers",
       Base::ragged,
       [](Wrong& w) {
         w.p.sinks = w.index({1, 2, 3, 4});
       },
       {"sinks"},
       FOVEA_INVALID_TYPE},
      {"bits without lens", Base::bits, [](Wrong& w) { w.p.mask_lens = {}; }, {"mask_lens"}, FOVEA_OK},
      {"lens without bits", Base::bits, [](Wrong& w) { w.p.mask_bits = {}; }, {"mask_lens"}, FOVEA_OK},
      {"bits of i32", Base::bits, [](Wrong& w) { w.p.mask_bits.dtype = FOVEA_I32; }, {"mask_bits"}, FOVEA_INVALID_TYPE},
      {"mask_lens beyond the words",
       Base::bits,
       [](Wrong& w) {
         w.p.mask_lens = w.index({10, 65});
       },
       {"mask_lens", "65"},
       FOVEA_INVALID_VALUE,
       true},
      {"mask_lens negative",
       Base::bits,
       [](Wrong& w) {
         w.p.mask_lens = w.index({-1, 33});
       },
       {"mask_lens", "-1"},
       FOVEA_INVALID_VALUE,
       true},
      {"bits of other rows", Base::bits, [](Wrong& w) { w.p.mask_bits.shape[0] -= 1; }, {"mask_bits"}},
      // The cache.
      {"no cache", Base::any, [](Wrong& w) { w.p.kv = nullptr; }, {"kv"}},
      {"no segment", Base::any, [](Wrong& w) { w.p.kv_segments = 0; }, {"kv_segments", "0"}},
      {"four segments", Base::any, [](Wrong& w) { w.p.kv_segments = 4; }, {"kv_segments", "4"}},
      {"heads that do not divide", Base::ragged, [](Wrong& w) { w.kv.heads = 3; }, {"heads", "3"}},
      {"no heads", Base::any, [](Wrong& w) { w.kv.heads = 0; }, {"heads", "0"}},
      {"page_size 0", Base::any, [](Wrong& w) { w.kv.page_size = 0; }, {"page_size", "0"}},
      {"pages negative", Base::any, [](Wrong& w) { w.kv.pages = -1; }, {"pages", "-1"}},
      {"codec absent", Base::any, [](Wrong& w) { w.kv.k.codec = 0; }, {"codec"}, FOVEA_OK},
      {"codec unknown", Base::any, [](Wrong& w) { w.kv.k.codec = 77; }, {"codec", "77"}, FOVEA_OK},
      {"scale kind unknown", Base::any, [](Wrong& w) { w.kv.k.scale_kind = 9; }, {"scale_kind", "9"}, FOVEA_OK},
      {"scale type without a scale",
       Base::ragged,
       [](Wrong& w) { w.kv.k.scale_dtype = FOVEA_F32; },
       {"scale_dtype"},
       FOVEA_OK},
      {"scale group without groups", Base::fp8, [](Wrong& w) { w.kv.k.scale_group = 16; }, {"scale_group"}, FOVEA_OK},
      {"scale group 0",
       Base::fp8,
       [](Wrong& w) { w.kv.k.scale_kind = FOVEA_SCALE_GROUP; },
       {"scale_group", "0"},
       FOVEA_OK},
      {"scale type absent", Base::fp8, [](Wrong& w) { w.kv.v.scale_dtype = 0; }, {"scale_dtype"}, FOVEA_OK},
      {"scales in e4m3", Base::fp8, [](Wrong& w) { w.kv.v.scale_dtype = FOVEA_E4M3; }, {"scale_dtype"}, FOVEA_OK},
      {"scales null", Base::fp8, [](Wrong& w) { w.kv.k.scale.base = nullptr; }, {"scale"}},
      {"keys null", Base::ragged, [](Wrong& w) { w.kv.k.data.base = nullptr; }, {"k"}},
      {"values null", Base::ragged, [](Wrong& w) { w.kv.v.data.base = nullptr; }, {"v"}},
      {"v beside v_in_k", Base::ragged, [](Wrong& w) { w.kv.v_in_k = 1; }, {"v"}},
      {"d_v above d_k in K", Base::mla, [](Wrong& w) { w.kv.d_v = 40, w.p.out.shape[2] = 40; }, {"d_v"}, FOVEA_OK},
      {"v_in_k 3", Base::mla, [](Wrong& w) { w.kv.v_in_k = 3; }, {"v_in_k", "3"}},
      {"rope tail longer than K",
       Base::ragged,
       [](Wrong& w) { w.kv.d_rope = 40, w.kv.rope_dtype = FOVEA_F32; },
       {"d_rope", "40"}},
      {"rope tail without a type", Base::ragged, [](Wrong& w) { w.kv.d_rope = 8; }, {"rope_dtype"}, FOVEA_OK},
      {"rope type without a tail",
       Base::ragged,
       [](Wrong& w) { w.kv.rope_dtype = FOVEA_F16; },
       {"rope_dtype"},
       FOVEA_OK},
      {"record version 2", Base::any, [](Wrong& w) { w.kv.record_version = 2; }, {"record_version", "2"}, FOVEA_OK},
      {"prescale", Base::any, [](Wrong& w) { w.kv.prescale = 2; }, {"prescale"}, FOVEA_OK},
      {"rotation",
       Base::ragged,
       [](Wrong& w) {
         w.kv.rotation = w.number(std::vector<double>(2 * 32 * 32, 0.0), FOVEA_F32, {2, 32, 32});
       },
       {"rotation"},
       FOVEA_OK},
      {"k_offset",
       Base::ragged,
       [](Wrong& w) {
         w.kv.k_offset = w.number(std::vector<double>(64, 0.0), FOVEA_F32, {2, 32});
       },
       {"k_offset"},
       FOVEA_OK},
      {"codebook",
       Base::any,
       [](Wrong& w) {
         w.kv.codebook = w.number({1, 2, 3, 4});
       },
       {"codebook"},
       FOVEA_OK},
      {"signs", Base::any, [](Wrong& w) { w.kv.signs = w.number(std::vector<double>(32, 1.0)); }, {"signs"}, FOVEA_OK},
      {"shard beyond the world", Base::ragged, [](Wrong& w) { w.kv.shard_rank = 1; }, {"shard_rank", "1"}},
      {"no shards", Base::any, [](Wrong& w) { w.kv.shard_world = 0; }, {"shard_world", "0"}},
      {"shard_interleave 0", Base::any, [](Wrong& w) { w.kv.shard_interleave = 0; }, {"shard_interleave", "0"}},
      {"head dim 577",
       Base::ragged,
       [](Wrong& w) { w.kv.d_v = 577, w.p.out.shape[2] = 577, w.p.out.stride[1] = 577, w.p.out.stride[0] = 1 << 16; },
       {"d_v", "577"},
       FOVEA_OK},
      // Key lengths and pages.
      {"kv_lens absent", Base::ragged, [](Wrong& w) { w.kv.kv_lens = {}; }, {"kv_lens"}, FOVEA_OK},
      {"kv_lens negative",
       Base::ragged,
       [](Wrong& w) {
         w.kv.kv_lens = w.index({20, -1});
       },
       {"kv_lens", "-1"},
       FOVEA_INVALID_VALUE,
       true},
      {"kv_lens above the table",
       Base::ragged,
       [](Wrong& w) {
         w.kv.kv_lens = w.index({20, 5000});
       },
       {"kv_lens", "5000"},
       FOVEA_INVALID_VALUE,
       true},
      {"kv_lens above the capacity",
       Base::contiguous,
       [](Wrong& w) {
         w.kv.kv_lens = w.index({36, 33});
       },
       {"kv_lens", "36"},
       FOVEA_INVALID_VALUE,
       true},
      {"kv_lens above max_len",
       Base::ragged,
       [](Wrong& w) { w.kv.max_len = 32; },
       {"kv_lens", "33"},
       FOVEA_INVALID_VALUE,
       true},
      {"kv_lens above its pages",
       Base::csr,
       [](Wrong& w) {
         w.kv.kv_lens = w.index({33, 33});
       },
       {"kv_lens", "33"},
       FOVEA_INVALID_VALUE,
       true},
      {"kv_lens of another batch", Base::ragged, [](Wrong& w) { w.kv.kv_lens = w.index({20, 33, 1}); }, {"kv_lens"}},
      {"kv_lens of floats",
       Base::ragged,
       [](Wrong& w) { w.kv.kv_lens = w.number({20, 33}); },
       {"kv_lens"},
       FOVEA_INVALID_TYPE},
      {"starts negative",
       Base::ragged,
       [](Wrong& w) { w.kv.starts = w.index({0, -5}); },
       {"starts", "-5"},
       FOVEA_INVALID_VALUE,
       true},
      {"starts of another batch", Base::ragged, [](Wrong& w) { w.kv.starts = w.index({0}); }, {"starts"}},
      {"table of floats",
       Base::ragged,
       [](Wrong& w) { w.kv.page_table.dtype = FOVEA_F32; },
       {"page_table"},
       FOVEA_INVALID_TYPE},
      {"table of another batch", Base::ragged, [](Wrong& w) { w.kv.page_table.shape[0] = 1; }, {"page_table"}},
      {"table of rank 3", Base::ragged, [](Wrong& w) { w.kv.page_table.rank = 3; }, {"page_table"}},
      {"V's table of another shape",
       Base::ragged,
       [](Wrong& w) { w.kv.v_page_table = w.kv.page_table, w.kv.v_page_table.shape[1] -= 1; },
       {"v_page_table"}},
      {"V's table without V",
       Base::mla,
       [](Wrong& w) { w.kv.v_page_table = w.kv.page_table; },
       {"v_page_table"},
       FOVEA_OK},
      {"list without page_indptr", Base::csr, [](Wrong& w) { w.kv.page_indptr = {}; }, {"page_table"}, FOVEA_OK},
      {"page_indptr beside a table",
       Base::ragged,
       [](Wrong& w) { w.kv.page_indptr = w.index({0, 2, 5}); },
       {"page_table"},
       FOVEA_OK},
      {"page_indptr decreasing",
       Base::csr,
       [](Wrong& w) { w.kv.page_indptr = w.index({0, 6, 5}); },
       {"page_indptr", "6"},
       FOVEA_INVALID_VALUE,
       true},
      {"page_indptr beyond the list",
       Base::csr,
       [](Wrong& w) { w.kv.page_indptr = w.index({0, 2, 50}); },
       {"page_indptr", "50"},
       FOVEA_INVALID_VALUE,
       true},
      {"fewer sequences than batch", Base::contiguous, [](Wrong& w) { w.kv.pages = 1; }, {"pages"}},
      {"cu_seqlens_kv decreasing",
       Base::ragged_kv,
       [](Wrong& w) { w.kv.cu_seqlens_kv = w.index({0, 54, 53}); },
       {"cu_seqlens_kv", "54"},
       FOVEA_INVALID_VALUE,
       true},
      {"cu_seqlens_kv beyond the tokens",
       Base::ragged_kv,
       [](Wrong& w) { w.kv.cu_seqlens_kv = w.index({0, 20, 54}); },
       {"cu_seqlens_kv", "54"},
       FOVEA_INVALID_VALUE,
       true},
      {"cu_seqlens_kv beside a table",
       Base::ragged,
       [](Wrong& w) { w.kv.cu_seqlens_kv = w.index({0, 20, 53}); },
       {"cu_seqlens_kv"},
       FOVEA_OK},
  };
  return all;
}

}  // namespace fovea::test
