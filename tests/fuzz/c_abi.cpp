// SPDX-License-Identifier: Apache-2.0
// The C interface with parameters from an input, over small buffers of exact sizes: asking, planning and running never
// crash, agree with each other, and touch no byte that the parameters do not name.
#include <numeric>

#include "fuzz/call.h"

namespace fovea::fuzz {
namespace {

constexpr const char* kKernels[] = {nullptr, nullptr, nullptr, "sm80", "none", ""};

int32_t float_type(Input& in) {
  return in.pick<int32_t>({FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_BF16});
}
int32_t index_type(Input& in) {
  return in.pick<int32_t>({FOVEA_I32, FOVEA_I64});
}

// n + 1 numbers from 0 to total.
std::vector<int64_t> cuts(Input& in, int64_t n, int64_t total) {
  std::vector<int64_t> out{0};
  for (int64_t i = 1; i < n; ++i) out.push_back(in.range(out.back(), total));
  out.push_back(total);
  return out;
}
std::vector<int64_t> numbers(Input& in, int64_t n, int64_t low, int64_t high) {
  std::vector<int64_t> out(static_cast<size_t>(std::max<int64_t>(n, 1)));
  for (int64_t& value : out) value = in.range(low, high);
  return out;
}

class Builder {
 public:
  Builder(Call& call) : call_(call), in_(call.in()) {}

  std::function<double()> build(fovea_attention_params& p) {
    const int64_t batch = in_.range(0, 3), group = in_.range(1, 3), tokens = in_.range(batch > 0 ? 1 : 0, 9);
    const bool padded = in_.chance(64);
    for (fovea_tensor* t :
         {&p.q, &p.cu_seqlens_q, &p.q_lens, &p.q_starts, &p.mask_bits, &p.mask_lens, &p.alibi_slopes, &p.sinks}) {
      call_.name(*t);
    }
    call_.name(p.out, Access::write);
    call_.name(p.lse, Access::write);
    p.kv_segments = static_cast<int32_t>(in_.pick({1, 1, 1, 2, 3}));
    sequences_ = true;
    const int segments = p.kv_segments;
    auto* kv = call_.structs<fovea_kv>(static_cast<size_t>(segments));
    call_.pin(&p.kv, kv);
    for (int s = 0; s < segments; ++s) {
      if (s > 0) kv[s] = like(kv[0]);
      cache(kv[s], batch, in_.range(0, 40), s == 0, Access::read);
    }
    const int64_t heads = kv->heads * group;
    const int32_t type = in_.chance(32) ? FOVEA_E4M3 : float_type(in_),
                  out = in_.chance(32) ? FOVEA_E4M3 : float_type(in_);
    if (padded) {
      call_.give(p.q, type, {batch, tokens, heads, kv->d_k});
      call_.give(p.out, out, {batch, tokens, heads, kv->d_v});
      if (in_.chance(128)) call_.give(p.q_lens, index_type(in_), {batch}, numbers(in_, batch, 0, tokens));
      if (in_.chance(128)) call_.give(p.lse, FOVEA_F32, {batch, tokens, heads});
      if (in_.chance(64)) call_.give(p.q_starts, index_type(in_), {batch}, numbers(in_, batch, 0, tokens));
    } else {
      call_.give(p.q, type, {tokens, heads, kv->d_k});
      call_.give(p.out, out, {tokens, heads, kv->d_v});
      call_.give(p.cu_seqlens_q, index_type(in_), {batch + 1},
                 batch > 0 ? cuts(in_, batch, tokens) : std::vector<int64_t>{0});
      if (in_.chance(128)) call_.give(p.lse, FOVEA_F32, {tokens, heads});
    }
    attention_options(p, padded, batch, tokens, heads);
    return [&p, kv, segments] {
      double keys = 0, rows = 1;
      for (int s = 0; s < segments; ++s) {
        const bool paged = kv[s].page_table.dtype != 0;
        const double columns =
            paged ? static_cast<double>(kv[s].page_table.shape[kv[s].page_table.rank == 2 ? 1 : 0]) : 1;
        keys += columns * kv[s].page_size;
      }
      for (int i = 0; i < p.q.rank; ++i) rows *= static_cast<double>(p.q.shape[i]);
      return (rows + static_cast<double>(p.q.shape[0]) + 1) * (keys + 1);
    };
  }

  std::function<double()> build(fovea_merge_states_params& p) {
    const int64_t tokens = in_.range(0, 5), heads = in_.range(1, 3), d = in_.range(1, 20);
    p.parts = static_cast<int32_t>(in_.range(1, 4));
    const int parts = p.parts;
    auto* outs = call_.structs<fovea_tensor>(static_cast<size_t>(parts));
    auto* lses = call_.structs<fovea_tensor>(static_cast<size_t>(parts));
    call_.pin(&p.outs, outs);
    call_.pin(&p.lses, lses);
    for (int i = 0; i < parts; ++i) {
      call_.name(outs[i]);
      call_.name(lses[i]);
      call_.give(outs[i], float_type(in_), {tokens, heads, d});
      call_.give(lses[i], FOVEA_F32, {tokens, heads});
    }
    call_.name(p.out, Access::write);
    call_.name(p.lse, Access::write);
    call_.name(p.sinks);
    call_.give(p.out, float_type(in_), {tokens, heads, d});
    if (in_.chance(64)) call_.alias(p.out, outs[0]);
    if (in_.chance(128)) call_.give(p.lse, FOVEA_F32, {tokens, heads});
    if (in_.chance(64)) call_.alias(p.lse, lses[0]);
    if (in_.chance(64)) call_.give(p.sinks, FOVEA_F32, {heads});
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_kv_append_params& p) {
    const int64_t tokens = in_.range(0, 7);
    auto* kv = call_.structs<fovea_kv>(1);
    call_.pin(&p.kv, kv);
    for (fovea_tensor* t : {&p.k, &p.v, &p.slot_mapping, &p.q, &p.q_norm_weight, &p.k_norm_weight, &p.positions}) {
      call_.name(*t);
    }
    call_.name(p.q_out, Access::write);
    cache(*kv, 2, 24, true, Access::write);
    call_.give(p.k, float_type(in_), {tokens, kv->heads, kv->d_k});
    if (!kv->v_in_k) call_.give(p.v, float_type(in_), {tokens, kv->heads, kv->d_v});
    std::vector<int64_t> slots(static_cast<size_t>(std::max<int64_t>(kv->pages * kv->page_size, 1)));
    std::iota(slots.begin(), slots.end(), in_.range(-2, 2));
    call_.give(p.slot_mapping, index_type(in_), {tokens}, slots);
    const int64_t heads = in_.range(1, 4), d_q = kv->d_k;
    const bool has_q = in_.chance(160);
    if (has_q) {
      call_.give(p.q, float_type(in_), {tokens, heads, d_q});
      call_.give(p.q_out, in_.chance(128) ? p.q.dtype : float_type(in_), {tokens, heads, d_q});
      call_.alias(p.q_out, p.q);
    }
    if (in_.chance(96)) call_.give(p.k_norm_weight, float_type(in_), {kv->d_k - kv->d_rope});
    if (has_q && in_.chance(96)) call_.give(p.q_norm_weight, float_type(in_), {d_q - kv->d_rope});
    if (!in_.chance(128)) {
      call_.pin(&p.rope, nullptr);
      return [] { return 1.0; };
    }
    auto* rope = call_.structs<fovea_rope_config>(1);
    rope_config(*rope, kv->d_rope != 0 ? kv->d_rope : kv->d_k);
    call_.pin(&p.rope, rope);
    positions(p.positions, *rope, tokens);
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_kv_copy_params& p) {
    auto* kv = call_.structs<fovea_kv>(1);
    call_.pin(&p.src, kv);
    call_.pin(&p.dst, kv);
    const bool one = in_.chance(128);
    cache(*kv, 2, in_.range(0, 40), true, one ? Access::write : Access::read);
    if (!one) {
      auto* other = call_.structs<fovea_kv>(1);
      *other = *kv;
      call_.pin(&p.dst, other);
      cache(*other, 2, 40, false, Access::write);
    }
    call_.name(p.copies);
    const int64_t n = in_.range(0, 3);
    call_.give(p.copies, index_type(in_), {n, 2}, {0, 1, 0, 2, 0, 3});
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_rope_params& p) {
    const int64_t tokens = in_.range(0, 6), heads = in_.range(1, 3), d = 2 * in_.range(1, 20);
    call_.name(p.x);
    call_.name(p.out, Access::write);
    call_.name(p.positions);
    call_.give(p.x, float_type(in_), {tokens, heads, d});
    call_.give(p.out, in_.chance(128) ? p.x.dtype : float_type(in_), {tokens, heads, d});
    call_.alias(p.out, p.x);
    auto* rope = call_.structs<fovea_rope_config>(1);
    rope_config(*rope, d);
    call_.pin(&p.config, rope);
    positions(p.positions, *rope, tokens);
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_norm_params& p) {
    const int64_t rows = in_.range(0, 9), n = in_.range(1, 70);
    p.kind = in_.pick<int32_t>({FOVEA_NORM_RMS, FOVEA_NORM_RMS, FOVEA_NORM_LAYER, FOVEA_NORM_L2});
    for (fovea_tensor* t : {&p.x, &p.weight, &p.bias, &p.residual, &p.gate}) call_.name(*t);
    for (fovea_tensor* t : {&p.out, &p.residual_out}) call_.name(*t, Access::write);
    const auto rows_of = [&](fovea_tensor& t) {
      p.x.rank == 3 ? call_.give(t, float_type(in_), {rows, 3, n}) : call_.give(t, float_type(in_), {rows, n});
    };
    p.x.rank = in_.chance(64) ? 3 : 2;
    rows_of(p.x);
    rows_of(p.out);
    if (in_.chance(64)) call_.alias(p.out, p.x);
    if (p.kind != FOVEA_NORM_L2 && in_.chance(128)) call_.give(p.weight, float_type(in_), {n});
    if (p.kind == FOVEA_NORM_LAYER && in_.chance(128)) call_.give(p.bias, float_type(in_), {n});
    if (in_.chance(96)) {
      rows_of(p.residual);
      if (in_.chance(160)) rows_of(p.residual_out);
      if (in_.chance(128)) call_.alias(p.residual_out, p.residual);
    }
    if (in_.chance(96)) {
      rows_of(p.gate);
      p.gate_kind = in_.pick<int32_t>({FOVEA_GATE_SILU, FOVEA_GATE_SIGMOID});
      p.gate_first = in_.chance(128) ? 1 : 0;
    }
    if (in_.chance(64) && p.weight.dtype != 0) p.weight_offset = 1;
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_glu_params& p) {
    const int64_t tokens = in_.range(0, 5), n = in_.range(0, 80);
    p.kind = static_cast<int32_t>(in_.range(0, 3));
    call_.name(p.gate);
    call_.name(p.up);
    call_.name(p.out, Access::write);
    for (fovea_tensor* t : {&p.gate, &p.up, &p.out}) call_.give(*t, float_type(in_), {tokens, n});
    if (in_.chance(64)) {
      for (fovea_tensor* t : {&p.gate, &p.up}) t->stride[1] = 2, t->stride[0] *= 2;
    }
    if (in_.chance(64)) call_.alias(p.out, p.gate);
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_matmul_params& p) {
    const int32_t type = weight_type();
    const int64_t m = in_.range(0, 9), n = in_.range(0, 20), k = columns_of(type);
    for (fovea_tensor* t : {&p.x, &p.w, &p.w_scale, &p.bias}) call_.name(*t);
    call_.name(p.out, Access::write);
    call_.give(p.x, float_type(in_), {m, k});
    call_.give(p.w, type, {n, k});
    if (type == FOVEA_E4M3) weight_scale(p.w_scale, n, k);
    call_.give(p.out, float_type(in_), {m, n});
    if (in_.chance(128)) call_.give(p.bias, float_type(in_), {n});
    return [&p] { return double(p.x.shape[0]) * double(p.x.shape[1]) * double(p.w.shape[0]); };
  }

  std::function<double()> build(fovea_embed_params& p) {
    const int32_t type = weight_type();
    const int64_t tokens = in_.range(0, 9), vocab = in_.range(1, 20), n = columns_of(type);
    call_.name(p.ids);
    call_.name(p.table);
    call_.name(p.table_scale);
    call_.name(p.out, Access::write);
    call_.give(p.ids, index_type(in_), {tokens}, numbers(in_, tokens, 0, vocab - 1));
    call_.give(p.table, type, {vocab, n});
    if (type == FOVEA_E4M3) weight_scale(p.table_scale, vocab, n);
    call_.give(p.out, float_type(in_), {tokens, n});
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_sample_params& p) {
    const int64_t rows = in_.range(0, 5), vocab = in_.range(1, 90);
    call_.name(p.tokens, Access::write);
    sampling(p, rows, rows, vocab);
    call_.give(p.tokens, index_type(in_), {rows});
    if (in_.chance(64)) call_.give(p.logprobs, FOVEA_F32, {rows});
    if (in_.chance(64)) call_.give(p.probs, FOVEA_F32, {rows, vocab});
    if (!in_.chance(64)) return [] { return 1.0; };
    const int64_t top = in_.range(0, vocab);
    call_.give(p.top_ids, index_type(in_), {rows, top});
    call_.give(p.top_logprobs, FOVEA_F32, {rows, top});
    p.logprobs_kind = static_cast<int32_t>(in_.range(0, 1));
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_verify_params& p) {
    const int64_t requests = in_.range(0, 3), nodes = requests > 0 ? in_.range(0, 9) : 0, vocab = in_.range(1, 90);
    for (fovea_tensor* t : {&p.cu_nodes, &p.draft_tokens, &p.parents, &p.draft_probs, &p.draft_rows}) call_.name(*t);
    for (fovea_tensor* t : {&p.accepted, &p.tokens, &p.nodes}) call_.name(*t, Access::write);
    auto* target = call_.structs<fovea_sample_params>(1);
    call_.pin(&p.target, target);
    call_.name(target->tokens, Access::ignored);
    sampling(*target, requests, nodes, vocab);
    call_.give(p.cu_nodes, index_type(in_), {requests + 1},
               requests > 0 ? cuts(in_, requests, nodes) : std::vector<int64_t>{0});
    call_.give(p.draft_tokens, index_type(in_), {nodes}, numbers(in_, nodes, 0, vocab - 1));
    if (in_.chance(128)) call_.give(p.parents, index_type(in_), {nodes}, numbers(in_, nodes, 0, 1));
    if (in_.chance(128)) {
      const int64_t rows = in_.range(1, 4);
      call_.give(p.draft_probs, float_type(in_), {rows, vocab});
      call_.give(p.draft_rows, index_type(in_), {nodes}, numbers(in_, nodes, -1, rows - 1));
    }
    const int64_t width = in_.pick({10, 10, 2});
    call_.give(p.accepted, index_type(in_), {requests});
    call_.give(p.tokens, index_type(in_), {requests, width});
    if (in_.chance(128)) call_.give(p.nodes, index_type(in_), {requests, width});
    return [] { return 1.0; };
  }

  std::function<double()> build(fovea_quantize_params& p) {
    const int32_t type = weight_type();
    const int64_t n = in_.range(0, 5), k = columns_of(type);
    call_.name(p.x);
    call_.name(p.out, Access::write);
    call_.give(p.x, float_type(in_), {n, k});
    call_.give(p.out, type, {n, k});
    return [&p] { return double(p.x.shape[0]) * double(p.x.shape[1]) * 32; };
  }

 private:
  // What shapes the draws of `rows`, over `logit_rows` rows of logits; outputs are named.
  void sampling(fovea_sample_params& p, int64_t rows, int64_t logit_rows, int64_t vocab) {
    for (fovea_tensor* t : {&p.logits,
                            &p.positions,
                            &p.temperatures,
                            &p.top_ks,
                            &p.top_ps,
                            &p.min_ps,
                            &p.seeds,
                            &p.repetition_penalties,
                            &p.presence_penalties,
                            &p.frequency_penalties,
                            &p.history_tokens,
                            &p.history_indptr,
                            &p.history_rows,
                            &p.history_prompt_lens,
                            &p.bias_ids,
                            &p.bias_values,
                            &p.bias_indptr,
                            &p.bias_rows,
                            &p.mask_bits,
                            &p.mask_rows}) {
      call_.name(*t);
    }
    for (fovea_tensor* t : {&p.logprobs, &p.top_ids, &p.top_logprobs, &p.probs}) call_.name(*t, Access::write);
    call_.give(p.logits, float_type(in_), {logit_rows, vocab});
    const auto per_row = [&](fovea_tensor& t, int32_t type, auto& scalar, auto plain) {
      if (!in_.chance(48)) return;
      call_.give(t, type, {rows}, numbers(in_, rows, 0, 20));
      scalar = plain;
    };
    if (in_.chance(128)) edits(p, rows, logit_rows, vocab);
    if (in_.chance(64)) return;
    p.temperature = in_.pick({0.5f, 1.0f, 1e-6f, 1e6f});
    p.top_p = in_.pick({1.0f, 0.9f, 0.0f});
    p.top_k = in_.pick({0, 1, 5, 1000});
    p.min_p = in_.pick({0.0f, 0.1f, 1.0f});
    call_.give(p.positions, index_type(in_), {rows}, numbers(in_, rows, 0, 100));
    per_row(p.temperatures, FOVEA_F32, p.temperature, 0.0f);
    per_row(p.top_ks, FOVEA_I32, p.top_k, 0);
    per_row(p.top_ps, FOVEA_F32, p.top_p, 1.0f);
    per_row(p.min_ps, FOVEA_F32, p.min_p, 0.0f);
    per_row(p.seeds, in_.pick<int32_t>({FOVEA_U64, FOVEA_I64}), p.seed, uint64_t{0});
  }
  void edits(fovea_sample_params& p, int64_t rows, int64_t logit_rows, int64_t vocab) {
    const int64_t n = in_.range(0, 12), lists = in_.range(1, 4);
    if (in_.chance(128)) {
      p.repetition_penalty = in_.pick({1.0f, 1.5f, 0.5f});
      p.presence_penalty = 0.5f;
      call_.give(p.history_tokens, index_type(in_), {n}, numbers(in_, n, 0, vocab - 1));
      call_.give(p.history_indptr, index_type(in_), {lists + 1}, cuts(in_, lists, n));
      call_.give(p.history_rows, index_type(in_), {rows}, numbers(in_, rows, -1, lists - 1));
      if (in_.chance(64)) call_.give(p.history_prompt_lens, index_type(in_), {lists}, numbers(in_, lists, 0, 1));
    }
    if (in_.chance(128)) {
      call_.give(p.bias_ids, index_type(in_), {n}, numbers(in_, n, 0, vocab - 1));
      call_.give(p.bias_values, FOVEA_F32, {n});
      call_.give(p.bias_indptr, index_type(in_), {lists + 1}, cuts(in_, lists, n));
      call_.give(p.bias_rows, index_type(in_), {rows}, numbers(in_, rows, -1, lists - 1));
    }
    if (in_.chance(128)) return;
    call_.give(p.mask_bits, in_.pick<int32_t>({FOVEA_U32, FOVEA_I32}), {lists, (vocab + 31) / 32});
    call_.give(p.mask_rows, index_type(in_), {logit_rows}, numbers(in_, logit_rows, -1, lists - 1));
  }

  // Any type, of which some are no weights.
  int32_t weight_type() {
    return in_.pick<int32_t>({
#define FOVEA_DTYPE(name, NAME, value, block, bytes) value,
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
    });
  }
  // One for all weights, for each row, or for each block of 128 x 128.
  void weight_scale(fovea_tensor& t, int64_t n, int64_t k) {
    const int64_t kind = in_.range(0, 2);
    kind == 2 ? call_.give(t, float_type(in_), {(n + 127) / 128, (k + 127) / 128})
              : call_.give(t, float_type(in_), {kind == 0 ? 1 : n});
  }
  int64_t columns_of(int32_t type) {
    for (const int64_t block : {1, 32, 256}) {
      if (fovea_dtype_bytes(type, block) > 0) return block * in_.range(0, block == 1 ? 70 : 2);
    }
    return 0;
  }

  void attention_options(fovea_attention_params& p, bool padded, int64_t batch, int64_t tokens, int64_t heads) {
    p.mask = static_cast<int32_t>(in_.range(0, 3));
    if (p.mask == FOVEA_MASK_WINDOW) {
      p.window_left = static_cast<int32_t>(in_.range(-1, 12));
      p.window_right = static_cast<int32_t>(in_.range(-1, 3));
    }
    if (p.mask == FOVEA_MASK_CHUNK) p.chunk_size = in_.range(1, 20);
    if (in_.chance(48)) p.softcap = 30;
    if (in_.chance(48)) p.split_size = static_cast<int32_t>(in_.range(1, 33));
    p.batch_invariant = in_.chance(48) ? 1 : 0;
    p.chunk_invariant = in_.chance(48) ? 1 : 0;
    call_.pin(&p.kernel, kKernels[in_.chance(16) ? in_.range(0, 5) : 0]);
    if (in_.chance(48)) call_.give(p.sinks, FOVEA_F32, {heads});
    if (in_.chance(48)) {
      in_.chance(64) ? call_.give(p.alibi_slopes, FOVEA_F32, {batch, heads})
                     : call_.give(p.alibi_slopes, FOVEA_F32, {heads});
    }
    if (!in_.chance(48)) return;
    const int64_t words = in_.range(1, 3);
    padded ? call_.give(p.mask_bits, FOVEA_U32, {batch, tokens, words})
           : call_.give(p.mask_bits, FOVEA_U32, {tokens, words});
    call_.give(p.mask_lens, index_type(in_), {batch}, numbers(in_, batch, 0, 32 * words));
  }

  // The cache of a further segment: dims as the first, all else its own.
  static fovea_kv like(const fovea_kv& first) {
    fovea_kv kv;
    kv.heads = first.heads;
    kv.d_k = first.d_k;
    kv.d_v = first.d_v;
    return kv;
  }

  void side(fovea_kv& kv, fovea_kv_side& s, int64_t dims) {
    s.codec = in_.pick<int32_t>({FOVEA_CODEC_F32, FOVEA_CODEC_F16, FOVEA_CODEC_BF16, FOVEA_CODEC_FP8});
    const int64_t bytes = dims * (s.codec == FOVEA_CODEC_F32 ? 4 : s.codec == FOVEA_CODEC_FP8 ? 1 : 2);
    strides(kv, s.data, bytes);
    if (s.codec != FOVEA_CODEC_FP8 && !in_.chance(32)) return;
    s.scale_kind = static_cast<int32_t>(in_.range(FOVEA_SCALE_NONE + 1, FOVEA_SCALE_GROUP));
    s.scale_dtype = float_type(in_);
    const int64_t scale = s.scale_dtype == FOVEA_F32 ? 4 : 2;
    if (s.scale_kind == FOVEA_SCALE_HEAD) s.scale.head_stride = scale;
    if (s.scale_kind == FOVEA_SCALE_TOKEN_HEAD) strides(kv, s.scale, scale);
    if (s.scale_kind != FOVEA_SCALE_GROUP) return;
    s.scale_group = static_cast<int32_t>(in_.range(1, dims));
    strides(kv, s.scale, (dims + s.scale_group - 1) / s.scale_group * scale);
  }
  // Codes on both sides, in records.
  void codes(fovea_kv& kv) {
    for (fovea_kv_side* s : {&kv.k, &kv.v}) {
      *s = {};
      s->codec = static_cast<int32_t>(in_.range(FOVEA_CODEC_I8, FOVEA_CODEC_Q2));
      s->scale_kind = FOVEA_SCALE_TOKEN_HEAD;
      s->scale_dtype = in_.pick<int32_t>({FOVEA_F16, FOVEA_F32});
    }
    fovea_kv_record(&kv, nullptr, nullptr);
  }
  void strides(const fovea_kv& kv, fovea_kv_stream& s, int64_t vector) {
    const bool hnd = in_.chance(96);
    s.token_stride = hnd ? vector : vector * kv.heads;
    s.head_stride = hnd ? vector * kv.page_size : vector;
    s.page_stride = vector * kv.heads * kv.page_size;
    if (!in_.chance(32)) return;
    for (int64_t* stride : {&s.page_stride, &s.token_stride, &s.head_stride}) *stride = -*stride;
  }

  // `fresh`: dims are drawn; else they are there, and sides too where there is a page size.
  void cache(fovea_kv& kv, int64_t batch, int64_t len, bool fresh, Access access) {
    if (fresh) {
      kv.heads = static_cast<int32_t>(in_.range(1, 3));
      kv.d_k = 2 * static_cast<int32_t>(in_.range(1, 24));
      kv.v_in_k = in_.chance(32) ? 1 : 0;
      kv.d_v = kv.v_in_k ? static_cast<int32_t>(in_.range(1, kv.d_k)) : in_.chance(128) ? kv.d_k : 16;
    }
    const int64_t kind = in_.range(0, 3);
    if (kv.page_size == 0) {
      kv.page_size = static_cast<int32_t>(kind < 2 ? in_.pick({4, 16, 1, 7}) : std::max<int64_t>(len, 1));
      kv.pages = kind == 3 ? 1 : kind == 2 ? std::max<int64_t>(batch, 1) : in_.range(1, 8);
      if (in_.chance(24)) kv.d_rope = 2 * static_cast<int32_t>(in_.range(1, 3)), kv.rope_dtype = FOVEA_BF16;
      if (kv.d_rope >= kv.d_k) kv.d_rope = kv.rope_dtype = 0;
      if (kv.d_rope != 0) strides(kv, kv.k_rope, kv.d_rope * 2);
      side(kv, kv.k, kv.d_k - kv.d_rope);
      if (!kv.v_in_k) side(kv, kv.v, kv.d_v);
      const auto turns = [](int64_t d) { return d == 32 || d == 48; };
      const bool may = kind < 2 && kv.page_size == 16 && !kv.v_in_k && turns(kv.d_k - kv.d_rope) && turns(kv.d_v);
      if (may && in_.chance(160)) codes(kv);
    }
    for (fovea_tensor* t : {&kv.page_table, &kv.v_page_table, &kv.page_indptr, &kv.kv_lens, &kv.starts,
                            &kv.cu_seqlens_kv, &kv.rotation, &kv.k_offset, &kv.codebook, &kv.signs}) {
      call_.name(*t, sequences_ ? Access::read : Access::ignored);
    }
    call_.name(kv, access);
    if (sequences_) sequences(kv, batch, len, kind);
  }
  void sequences(fovea_kv& kv, int64_t batch, int64_t len, int64_t kind) {
    const int64_t columns = (len + kv.page_size - 1) / kv.page_size;
    const std::vector<int64_t> lens = numbers(in_, batch, 0, len);
    if (kind == 3)
      return call_.give(kv.cu_seqlens_kv, index_type(in_), {batch + 1},
                        batch > 0 ? cuts(in_, batch, len) : std::vector<int64_t>{0});
    call_.give(kv.kv_lens, index_type(in_), {batch}, lens);
    if (in_.chance(32)) call_.give(kv.starts, index_type(in_), {batch}, numbers(in_, batch, 0, 2));
    if (in_.chance(16)) kv.shard_world = 2, kv.shard_interleave = static_cast<int32_t>(in_.range(1, 4));
    if (kind == 2) return;
    const std::vector<int64_t> pages = numbers(in_, batch * columns, 0, std::max<int64_t>(kv.pages - 1, 0));
    if (kind == 1) {
      std::vector<int64_t> first;
      for (int64_t b = 0; b <= batch; ++b) first.push_back(b * columns);
      call_.give(kv.page_table, index_type(in_), {batch * columns}, pages);
      return call_.give(kv.page_indptr, index_type(in_), {batch + 1}, first);
    }
    call_.give(kv.page_table, index_type(in_), {batch, columns}, pages);
    if (!kv.v_in_k && in_.chance(48)) call_.give(kv.v_page_table, index_type(in_), {batch, columns}, pages);
  }

  void rope_config(fovea_rope_config& c, int64_t d) {
    call_.name(c.cos);
    call_.name(c.sin);
    c.style = static_cast<int32_t>(in_.range(0, 1));
    if (in_.chance(64)) c.rotary_dim = static_cast<int32_t>(2 * in_.range(0, d / 2));
    c.scaling = static_cast<int32_t>(in_.range(0, 5));
    if (c.scaling != FOVEA_ROPE_SCALING_NONE) c.factor = 4;
    if (c.scaling >= FOVEA_ROPE_SCALING_YARN) c.original_max_position = 128;
    const int64_t pairs = (c.rotary_dim != 0 ? c.rotary_dim : d) / 2;
    if (in_.chance(32)) {
      c.mrope_section[0] = static_cast<int32_t>(pairs / 2);
      c.mrope_section[1] = static_cast<int32_t>(pairs - pairs / 2);
    }
    const bool lists = c.scaling == FOVEA_ROPE_SCALING_LONGROPE;
    if (lists) c.max_position = in_.pick({64, 256});
    // As many as any rotary_dim that is allowed has pairs.
    for (const float** field : {&c.short_factor, &c.long_factor}) {
      auto* factors = lists ? call_.structs<float>(1 << 12) : nullptr;
      if (lists) std::fill_n(factors, 1 << 12, 1.5f);
      call_.pin(field, factors);
    }
    if (!in_.chance(32)) return;
    c.scaling = FOVEA_ROPE_SCALING_NONE;
    c.factor = 1;
    c.original_max_position = c.max_position = 0;
    const int64_t rows = in_.range(0, 9);
    call_.give(c.cos, FOVEA_F32, {rows, pairs});
    call_.give(c.sin, FOVEA_F32, {rows, pairs});
  }
  void positions(fovea_tensor& t, const fovea_rope_config& c, int64_t tokens) {
    const std::vector<int64_t> values = numbers(in_, tokens, 0, c.cos.dtype != 0 ? 8 : 3000);
    c.mrope_section[0] > 0 ? call_.give(t, index_type(in_), {2, tokens}, values)
                           : call_.give(t, index_type(in_), {tokens}, values);
  }

  Call& call_;
  Input& in_;
  bool sequences_ = false;  // the operation looks at those of its caches
};

template <class Params>
void check(int32_t op, Input& in) {
  static const Context context({.threads = 1});
  Call call(op, in);
  auto* params = call.structs<Params>(1);
  const std::function<double()> work = Builder(call).build(*params);
  call.run(context, work);
}

void run(Bytes data) {
  Input in(data);
  switch (in.pick<int32_t>({
#define FOVEA_OP(name, Name, NAME, value, text) FOVEA_OP_##NAME,
#include "fovea/operations.def"
#undef FOVEA_OP
  })) {
#define FOVEA_OP(name, Name, NAME, value, text)        \
  case FOVEA_OP_##NAME:                                \
    check<fovea_##name##_params>(FOVEA_OP_##NAME, in); \
    break;
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      break;
  }
}

const Register registered({"c_abi", run});

}  // namespace
}  // namespace fovea::fuzz
