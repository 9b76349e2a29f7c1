// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/kv.h"

namespace fovea {

namespace {

// What segment s is called in messages.
const char* segment_name(int s, int segments) {
  static constexpr const char* kNames[kMaxSegments] = {"kv[0]", "kv[1]", "kv[2]"};
  return segments == 1 ? "kv" : kNames[s];
}

Status check_mask(const fovea_attention_params& p, MaskSpec& mask) {
  if (p.mask < FOVEA_MASK_NONE || p.mask > FOVEA_MASK_CHUNK) {
    return invalid_value("mask", p.mask, "must be one of enum fovea_mask");
  }
  constexpr int64_t kMost = int64_t{1} << 60;
  if (p.window_left < -1) return invalid_value("window_left", p.window_left, "must be at least -1");
  if (p.window_right < -1) return invalid_value("window_right", p.window_right, "must be at least -1");
  if (p.chunk_size < 0 || p.chunk_size > kMost) {
    return invalid_value("chunk_size", p.chunk_size, "must be 1 to 2^60 tokens, or 0 for other masks");
  }
  if (p.chunk_origin < -kMost || p.chunk_origin > kMost) {
    return invalid_value("chunk_origin", p.chunk_origin, "must be -2^60 to 2^60");
  }
  if (p.mask != FOVEA_MASK_WINDOW) {
    if (p.window_left != -1) return invalid_value("window_left", p.window_left, "only FOVEA_MASK_WINDOW has it");
    if (p.window_right != -1) return invalid_value("window_right", p.window_right, "only FOVEA_MASK_WINDOW has it");
  }
  if (p.mask != FOVEA_MASK_CHUNK) {
    if (p.chunk_size != 0) return invalid_value("chunk_size", p.chunk_size, "only FOVEA_MASK_CHUNK has it");
    if (p.chunk_origin != 0) return invalid_value("chunk_origin", p.chunk_origin, "only FOVEA_MASK_CHUNK has it");
  } else if (p.chunk_size == 0) {
    return invalid_value("chunk_size", 0, "FOVEA_MASK_CHUNK needs it");
  }
  mask = {.kind = static_cast<MaskKind>(p.mask),
          .window_left = p.window_left,
          .window_right = p.window_right,
          .chunk_size = p.chunk_size,
          .chunk_origin = p.chunk_origin};
  return {};
}

Status check_positive_scale(const char* name, float scale, int32_t dtype, const char* owner) {
  if (dtype != FOVEA_E4M3 && scale != 1.0f) {
    return invalid_value(name, format_float(scale), std::string("only an e4m3 ") + owner + " has a scale");
  }
  if (!(scale > 0) || std::isinf(scale)) return invalid_value(name, format_float(scale), "must be positive and finite");
  return {};
}

Status check_options(const fovea_attention_params& p) {
  if (!std::isfinite(p.scale)) return invalid_value("scale", format_float(p.scale), "must be finite");
  FOVEA_TRY(check_positive_scale("q_scale", p.q_scale, p.q.dtype, "q"));
  FOVEA_TRY(check_positive_scale("out_scale", p.out_scale, p.out.dtype, "out"));
  if (!(p.softcap >= 0) || std::isinf(p.softcap)) {
    return invalid_value("softcap", format_float(p.softcap), "must be finite and not negative");
  }
  if (p.max_q_len < 0) return invalid_value("max_q_len", p.max_q_len, "must not be negative");
  if (p.split_size < 0) return invalid_value("split_size", p.split_size, "must not be negative");
  const struct {
    const char* name;
    int32_t value;
  } flags[] = {{"batch_invariant", p.batch_invariant}, {"chunk_invariant", p.chunk_invariant}};
  for (const auto& [name, value] : flags) {
    if (value != 0 && value != 1) return invalid_value(name, value, "must be 0 or 1");
  }
  if (p.kernel != nullptr && find_attention_kernel(p.kernel) == nullptr) {
    std::string names;
    for (const AttentionKernel& k : kAttentionKernels) names += (names.empty() ? "" : ", ") + std::string(k.name);
    return invalid_value("kernel", std::string("\"") + p.kernel + "\"", "must be null or one of " + names);
  }
  return {};
}

Status check_index_vector(const char* name, const fovea_tensor& t, int64_t entries, const char* why, Place where) {
  FOVEA_TRY(check_tensor(name, t, kIndexTypes, 1, 1, where, LastStride::any));
  return check_dim(name, t, 0, entries, why);
}

// Q, its cut into sequences, and out and lse of its shape.
Status check_queries(const fovea_attention_params& p, Place where, AttentionSpec& spec) {
  FOVEA_TRY(check_tensor("q", p.q, kFloatOrE4m3, 3, 4, where));
  const bool padded = p.q.rank == 4;
  if (padded) {
    FOVEA_TRY(check_absent("cu_seqlens_q", p.cu_seqlens_q, "only ragged q (rank 3) has it"));
    spec.batch = p.q.shape[0];
    if (present(p.q_lens)) FOVEA_TRY(check_index_vector("q_lens", p.q_lens, spec.batch, "batch", where));
    if (present(p.q_starts)) FOVEA_TRY(check_index_vector("q_starts", p.q_starts, spec.batch, "batch", where));
  } else {
    FOVEA_TRY(check_absent("q_lens", p.q_lens, "only padded q (rank 4) has it"));
    FOVEA_TRY(check_absent("q_starts", p.q_starts, "only padded q (rank 4) has it"));
    FOVEA_TRY(check_tensor("cu_seqlens_q", p.cu_seqlens_q, kIndexTypes, 1, 1, where, LastStride::any));
    if (p.cu_seqlens_q.shape[0] < 1) {
      return invalid_value("cu_seqlens_q.shape[0]", p.cu_seqlens_q.shape[0], "must be at least 1 (batch + 1)");
    }
    spec.batch = p.cu_seqlens_q.shape[0] - 1;
  }
  const int heads_dim = p.q.rank - 2;
  spec.q = dtype(p.q);
  spec.padded = padded;
  spec.has_q_lens = present(p.q_lens);
  spec.has_q_starts = present(p.q_starts);
  spec.tokens = p.q.shape[heads_dim - 1];
  spec.max_q_len = p.max_q_len > 0 ? std::min<int64_t>(p.max_q_len, spec.tokens) : spec.tokens;
  if (p.q.shape[heads_dim] < 1 || p.q.shape[heads_dim] > INT32_MAX) {
    return invalid_value("q.shape[" + std::to_string(heads_dim) + "]", p.q.shape[heads_dim], "must be at least 1 head");
  }
  spec.heads = static_cast<int>(p.q.shape[heads_dim]);
  return {};
}

// t has the leading dimensions of q, and `rank` dimensions in all.
Status check_like_q(const char* name, const fovea_tensor& t, const fovea_attention_params& p,
                    std::span<const int32_t> types, int rank, Place where) {
  FOVEA_TRY(check_tensor(name, t, types, rank, rank, where, rank < p.q.rank ? LastStride::any : LastStride::one));
  for (int i = 0; i + 1 < p.q.rank && i < rank; ++i) FOVEA_TRY(check_dim(name, t, i, p.q.shape[i], "as q"));
  return {};
}

Status check_outputs(const fovea_attention_params& p, Place where, AttentionSpec& spec) {
  FOVEA_TRY(check_like_q("out", p.out, p, kFloatOrE4m3, p.q.rank, where));
  FOVEA_TRY(check_dim("out", p.out, p.q.rank - 1, spec.kv[0].d_v, "kv.d_v"));
  FOVEA_TRY(check_writable("out", p.out));
  spec.out = dtype(p.out);
  spec.has_lse = present(p.lse);
  if (!present(p.lse)) return {};
  FOVEA_TRY(check_like_q("lse", p.lse, p, kF32, p.q.rank - 1, where));
  return check_writable("lse", p.lse);
}

Status check_segments(const fovea_attention_params& p, Place where, AttentionSpec& spec) {
  if (p.kv_segments < 1 || p.kv_segments > kMaxSegments) {
    return invalid_value("kv_segments", p.kv_segments, "must be 1 to " + std::to_string(kMaxSegments));
  }
  if (p.kv == nullptr) return invalid_value("kv", "null", "must point to kv_segments structs");
  spec.segments = p.kv_segments;
  for (int s = 0; s < p.kv_segments; ++s) {
    const char* name = segment_name(s, p.kv_segments);
    FOVEA_TRY(check_kv_store(name, &p.kv[s], spec.kv[s]));
    FOVEA_TRY(check_kv_sequences(name, p.kv[s], spec.batch, where, spec.kv[s]));
    const struct {
      const char* field;
      int value, first;
    } same[] = {{".heads", spec.kv[s].heads, spec.kv[0].heads},
                {".d_k", spec.kv[s].d_k, spec.kv[0].d_k},
                {".d_v", spec.kv[s].d_v, spec.kv[0].d_v}};
    for (const auto& [field, value, first] : same) {
      if (value == first) continue;
      return invalid_value(std::string(name) + field, value, "must be " + std::to_string(first) + " (kv[0])");
    }
  }
  FOVEA_TRY(check_dim("q", p.q, p.q.rank - 1, spec.kv[0].d_k, "kv.d_k"));
  if (spec.heads % spec.kv[0].heads != 0) {
    return invalid_value("q.shape[" + std::to_string(p.q.rank - 2) + "]", spec.heads,
                         "heads must be a multiple of kv.heads, " + std::to_string(spec.kv[0].heads));
  }
  spec.group = spec.heads / spec.kv[0].heads;
  return {};
}

Status check_extras(const fovea_attention_params& p, Place where, AttentionSpec& spec) {
  if (present(p.mask_bits)) {
    const int rank = p.q.rank - 1;
    FOVEA_TRY(check_tensor("mask_bits", p.mask_bits, kU32, rank, rank, where));
    for (int i = 0; i + 1 < rank; ++i) FOVEA_TRY(check_dim("mask_bits", p.mask_bits, i, p.q.shape[i], "as q"));
    FOVEA_TRY(check_index_vector("mask_lens", p.mask_lens, spec.batch, "batch", where));
  } else {
    FOVEA_TRY(check_absent("mask_lens", p.mask_lens, "needs mask_bits"));
  }
  if (present(p.alibi_slopes)) {
    FOVEA_TRY(check_tensor("alibi_slopes", p.alibi_slopes, kF32, 1, 2, where, LastStride::any));
    const int last = p.alibi_slopes.rank - 1;
    FOVEA_TRY(check_dim("alibi_slopes", p.alibi_slopes, last, spec.heads, "heads"));
    if (last == 1) FOVEA_TRY(check_dim("alibi_slopes", p.alibi_slopes, 0, spec.batch, "batch"));
    spec.alibi_rank = p.alibi_slopes.rank;
  }
  if (present(p.sinks)) {
    FOVEA_TRY(check_tensor("sinks", p.sinks, kF32, 1, 1, where, LastStride::any));
    FOVEA_TRY(check_dim("sinks", p.sinks, 0, spec.heads, "heads"));
  }
  spec.has_bits = present(p.mask_bits);
  spec.has_sinks = present(p.sinks);
  return {};
}

}  // namespace

Status AttentionOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  const Place where = place(caps);
  spec = {};
  FOVEA_TRY(check_queries(p, where, spec));
  FOVEA_TRY(check_segments(p, where, spec));
  FOVEA_TRY(check_outputs(p, where, spec));
  FOVEA_TRY(check_options(p));
  FOVEA_TRY(check_mask(p, spec.mask));
  FOVEA_TRY(check_extras(p, where, spec));
  spec.scale = p.scale != 0 ? p.scale : 1.0f / std::sqrt(static_cast<float>(spec.kv[0].d_k));
  spec.q_scale = p.q_scale;
  spec.out_scale = p.out_scale;
  spec.softcap = p.softcap;
  spec.split_size = p.split_size;
  spec.batch_invariant = p.batch_invariant;
  spec.chunk_invariant = p.chunk_invariant;
  if (p.kernel != nullptr) {
    spec.kernel = static_cast<int>(find_attention_kernel(p.kernel) - std::begin(kAttentionKernels));
  }
  return {};
}

Status AttentionOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("batch", now.batch, planned.batch));
  FOVEA_TRY(at_most_planned("tokens of q", now.tokens, planned.tokens));
  FOVEA_TRY(at_most_planned("max_q_len", now.max_q_len, planned.max_q_len));
  FOVEA_TRY(as_planned("heads of q", now.heads, planned.heads));
  Spec same = now;
  same.batch = planned.batch;
  same.tokens = planned.tokens;
  same.max_q_len = planned.max_q_len;
  for (int s = 0; s < now.segments && s < planned.segments; ++s) {
    FOVEA_TRY(at_most_planned("the most tokens that kv allows", now.kv[s].max_len, planned.kv[s].max_len));
    same.kv[s].max_len = planned.kv[s].max_len;
  }
  return same == planned ? Status() : other_than_planned("attention");
}

Status AttentionOp::bind(const Params& p, const Spec& spec, Args& args) {
  const struct {
    const char* name;
    const fovea_tensor& tensor;
  } tensors[] = {{"q", p.q},
                 {"out", p.out},
                 {"lse", p.lse},
                 {"cu_seqlens_q", p.cu_seqlens_q},
                 {"q_lens", p.q_lens},
                 {"q_starts", p.q_starts},
                 {"mask_bits", p.mask_bits},
                 {"mask_lens", p.mask_lens},
                 {"alibi_slopes", p.alibi_slopes},
                 {"sinks", p.sinks}};
  for (const auto& [name, tensor] : tensors) FOVEA_TRY(check_data(name, tensor));
  args.spec = spec;
  args.q = view_of_rank(p.q, 4);
  args.out = view_of_rank(p.out, 4);
  args.lse = view_of_rank(p.lse, 3);
  args.cu_seqlens_q = index_view(p.cu_seqlens_q);
  args.q_lens = index_view(p.q_lens);
  args.q_starts = index_view(p.q_starts);
  args.mask_bits = view_of_rank(p.mask_bits, 3);
  args.mask_lens = index_view(p.mask_lens);
  args.alibi_slopes = view_of_rank<2>(p.alibi_slopes, 2);
  args.sinks = index_view(p.sinks);
  for (int s = 0; s < spec.segments; ++s) {
    const char* name = segment_name(s, spec.segments);
    FOVEA_TRY(bind_kv_store(name, p.kv[s], spec.kv[s], args.kv[s]));
    FOVEA_TRY(bind_kv_sequences(name, p.kv[s], args.kv[s]));
  }
  return {};
}

}  // namespace fovea
