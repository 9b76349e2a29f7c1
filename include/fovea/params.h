/* SPDX-License-Identifier: Apache-2.0
 * The parameter struct of each operation. Part of fovea.h. docs/<op>.md has the maths, errors and examples.
 *
 * Shapes are in brackets. "float" tensors are f32, f16 or bf16; "index" tensors i32 or i64. Strides may be anything the
 * tensor's memory allows; the last is 1 unless said. Optional tensors are absent by default.
 */
#ifndef FOVEA_PARAMS_H_
#define FOVEA_PARAMS_H_

#include "fovea/kv.h"

FOVEA_EXTERN_C_BEGIN

typedef enum fovea_mask {
#define FOVEA_MASK(name, NAME, value, text) FOVEA_MASK_##NAME = value,
#include "fovea/masks.def"
#undef FOVEA_MASK
} fovea_mask;

/* out = softmax(mask(softcap(scale * q k^T) - slope |p - j|)) v, one row per query and head.
 * Query i of n of a sequence of len keys stands at p = len - n + i. A row without a visible key: out 0, lse -inf (or
 * the sink's logit). docs/attention.md */
typedef struct fovea_attention_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_attention_params));
  int32_t mask FOVEA_DEFAULT(FOVEA_MASK_NONE);
  fovea_tensor q
      FOVEA_DEFAULT({}); /* ragged [tokens, heads, d_k] or padded [batch, tokens, heads, d_k]; float or e4m3 */
  fovea_tensor out FOVEA_DEFAULT({}); /* q's shape with d_v; float or e4m3 (stored = value / out_scale) */
  fovea_tensor lse FOVEA_DEFAULT({}); /* optional f32, q's shape without d: natural log of the sum of exponentials */
  fovea_tensor cu_seqlens_q FOVEA_DEFAULT({}); /* index [batch + 1], ragged only: starts at 0, ends at tokens */
  fovea_tensor q_lens FOVEA_DEFAULT({});   /* index [batch], padded only, optional: rows in use; others get 0, -inf */
  fovea_tensor q_starts FOVEA_DEFAULT({}); /* index [batch], padded only, optional: first row in use */
  const fovea_kv* kv FOVEA_DEFAULT(FOVEA_NULL); /* kv_segments structs, of consecutive positions */
  int32_t kv_segments FOVEA_DEFAULT(1);
  float scale FOVEA_DEFAULT(0.0f);     /* of the logits; 0 = 1 / sqrt(d_k) */
  float q_scale FOVEA_DEFAULT(1.0f);   /* e4m3 Q only: q = stored * q_scale */
  float out_scale FOVEA_DEFAULT(1.0f); /* e4m3 out only */
  float softcap FOVEA_DEFAULT(0.0f);   /* c > 0: c * tanh(logit / c); 0 = off */
  int32_t window_left
      FOVEA_DEFAULT(-1); /* mask window: keys before p that are seen, -1 = all; a window of w keys is w - 1 */
  int32_t window_right FOVEA_DEFAULT(-1);
  int64_t chunk_size FOVEA_DEFAULT(0);   /* mask chunk: tokens */
  int64_t chunk_origin FOVEA_DEFAULT(0); /* mask chunk: where a chunk begins */
  /* Packed bits, LSB first: optional u32 [tokens, words] (ragged) or [batch, tokens, words] (padded); bit k of a row is
   * key len - mask_lens[b] + k. Earlier keys are visible. Applies on top of `mask`. */
  fovea_tensor mask_bits FOVEA_DEFAULT({});
  fovea_tensor mask_lens FOVEA_DEFAULT({});    /* index [batch], with mask_bits; at most 32 * words */
  fovea_tensor alibi_slopes FOVEA_DEFAULT({}); /* optional f32 [heads] or [batch, heads] */
  fovea_tensor sinks FOVEA_DEFAULT({});     /* optional f32 [heads]: a logit that enters the denominator and the lse */
  int64_t max_q_len FOVEA_DEFAULT(0);       /* bound on queries per sequence, for planning; 0 = tokens */
  int32_t split_size FOVEA_DEFAULT(0);      /* keys per split of a sequence; 0 = chosen */
  int32_t batch_invariant FOVEA_DEFAULT(0); /* 1: a row's bits do not depend on batch mates or capacity */
  int32_t chunk_invariant FOVEA_DEFAULT(0); /* 1: nor on how its sequence was cut into calls */
  const char* kernel FOVEA_DEFAULT(FOVEA_NULL); /* force a kernel family by name; null = chosen */
} fovea_attention_params;

/* Merges outputs of attention over disjoint keys. A part with lse = -inf weighs nothing, to the bit; its out is not
 * read as a number. All-empty rows: out 0, lse -inf. Reads parts in order, so equal calls give equal bits.
 * docs/merge_states.md */
typedef struct fovea_merge_states_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_merge_states_params));
  int32_t parts FOVEA_DEFAULT(0);                     /* 1 to FOVEA_MAX_PARTS */
  const fovea_tensor* outs FOVEA_DEFAULT(FOVEA_NULL); /* [parts] tensors of out's shape; float */
  const fovea_tensor* lses FOVEA_DEFAULT(FOVEA_NULL); /* [parts] f32 tensors of out's shape without d */
  fovea_tensor out
      FOVEA_DEFAULT({}); /* [tokens, heads, d] or [batch, tokens, heads, d]; float; may be one of the parts */
  fovea_tensor lse FOVEA_DEFAULT({});   /* optional f32; may be one of the parts' */
  fovea_tensor sinks FOVEA_DEFAULT({}); /* optional f32 [heads]: then no part may have seen them */
} fovea_merge_states_params;

typedef enum fovea_rope_style {
  FOVEA_ROPE_NEOX = 0,
  FOVEA_ROPE_GPTJ = 1
} fovea_rope_style; /* halves, adjacent pairs */

typedef enum fovea_rope_scaling {
  FOVEA_ROPE_SCALING_NONE = 0,
  FOVEA_ROPE_SCALING_LINEAR = 1, /* angles divided by factor */
  FOVEA_ROPE_SCALING_NTK = 2,    /* theta * factor^(rotary_dim / (rotary_dim - 2)) */
  FOVEA_ROPE_SCALING_YARN = 3,
  FOVEA_ROPE_SCALING_LLAMA3 = 4,
  FOVEA_ROPE_SCALING_LONGROPE = 5
} fovea_rope_scaling;

/* How positions become angles. Pair i of rotary_dim / 2 turns by position * inv_freq[i], computed in f64 and rounded to
 * f32 as cos and sin, or by the given tables. An option that the scaling does not use must stay at its default.
 * docs/rope.md has the formula of each scaling. */
typedef struct fovea_rope_config {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_rope_config));
  int32_t style FOVEA_DEFAULT(FOVEA_ROPE_NEOX);
  int32_t rotary_dim FOVEA_DEFAULT(0); /* even, at most d; 0 = d; the dims after it are copied */
  int32_t scaling FOVEA_DEFAULT(FOVEA_ROPE_SCALING_NONE);
  double theta FOVEA_DEFAULT(10000.0);
  double factor FOVEA_DEFAULT(1.0);
  int64_t original_max_position FOVEA_DEFAULT(0); /* yarn, llama3, longrope: tokens the model was first trained for */
  double low_freq_factor FOVEA_DEFAULT(1.0);      /* llama3 */
  double high_freq_factor FOVEA_DEFAULT(4.0);     /* llama3 */
  double beta_fast FOVEA_DEFAULT(32.0);           /* yarn */
  double beta_slow FOVEA_DEFAULT(1.0);            /* yarn */
  double attention_factor FOVEA_DEFAULT(0.0);     /* yarn, longrope: multiplies cos and sin; 0 = the paper's formula */
  int64_t max_position FOVEA_DEFAULT(0);          /* longrope: above original_max_position the long factors are used */
  const float* short_factor FOVEA_DEFAULT(FOVEA_NULL);  /* longrope: host memory, [rotary_dim / 2] */
  const float* long_factor FOVEA_DEFAULT(FOVEA_NULL);   /* longrope: host memory, [rotary_dim / 2] */
  int32_t mrope_section[4] FOVEA_DEFAULT({0, 0, 0, 0}); /* M-RoPE: pairs per position row; sums to rotary_dim / 2 */
  int32_t mrope_interleaved
      FOVEA_DEFAULT(0);                   /* 1: pair i turns by row i % rows while its section lasts, else by row 0 */
  int32_t yarn_truncate FOVEA_DEFAULT(1); /* yarn: 1 = the blend begins and ends at whole pairs */
  fovea_tensor cos FOVEA_DEFAULT({}); /* optional f32 [positions, rotary_dim / 2]: used instead of theta and scaling */
  fovea_tensor sin FOVEA_DEFAULT({});
} fovea_rope_config;

FOVEA_API void fovea_rope_config_init(fovea_rope_config* config);

/* out = x with its first rotary_dim dims rotated by position. docs/rope.md */
typedef struct fovea_rope_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_rope_params));
  fovea_tensor x FOVEA_DEFAULT({});         /* [tokens, heads, d]; float */
  fovea_tensor out FOVEA_DEFAULT({});       /* x's shape; float; may be x */
  fovea_tensor positions FOVEA_DEFAULT({}); /* index [tokens], or [rows, tokens] for M-RoPE; not negative */
  const fovea_rope_config* config FOVEA_DEFAULT(FOVEA_NULL);
} fovea_rope_params;

/* Writes token i of k and v to slot_mapping[i] = page * page_size + offset; a negative slot writes nothing, one past
 * the pool neither, and sets the status word. q_out is written for every token. Order: per-head RMS norm, RoPE,
 * rounding to k's 16-bit type, encoding. Where kv->d_rope is not 0, the norm covers the dims before the k_rope part and
 * RoPE turns that part, in k and in q. docs/kv_append.md */
typedef struct fovea_kv_append_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_kv_append_params));
  fovea_tensor k FOVEA_DEFAULT({});             /* [tokens, kv heads, d_k]; float */
  fovea_tensor v FOVEA_DEFAULT({});             /* [tokens, kv heads, d_v]; float; absent where kv->v_in_k */
  const fovea_kv* kv FOVEA_DEFAULT(FOVEA_NULL); /* the cache written to; its page table, lens and shards are not used */
  fovea_tensor slot_mapping FOVEA_DEFAULT({});  /* index [tokens]; no two tokens share a slot */
  fovea_tensor q FOVEA_DEFAULT({});             /* optional [tokens, heads, d_q]; float: gets norm and RoPE too */
  fovea_tensor q_out FOVEA_DEFAULT({});         /* with q, its shape; float; may be q */
  fovea_tensor q_norm_weight FOVEA_DEFAULT({}); /* optional float [d_q - d_rope] */
  fovea_tensor k_norm_weight FOVEA_DEFAULT({}); /* optional float [d_k - d_rope] */
  float norm_eps FOVEA_DEFAULT(1e-6f);
  float norm_weight_offset FOVEA_DEFAULT(0.0f); /* 1 where the model stores w - 1 */
  const fovea_rope_config* rope FOVEA_DEFAULT(FOVEA_NULL);
  fovea_tensor positions FOVEA_DEFAULT({}); /* with rope: as in rope */
} fovea_kv_append_params;

/* Copies whole pages, every stream of them: copies[i] = {source page, destination page}. docs/kv_copy.md */
typedef struct fovea_kv_copy_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_kv_copy_params));
  const fovea_kv* src FOVEA_DEFAULT(FOVEA_NULL);
  const fovea_kv* dst FOVEA_DEFAULT(FOVEA_NULL); /* same codecs, dims and page size; may be src */
  fovea_tensor copies FOVEA_DEFAULT({}); /* index [n, 2]; no page is the destination of one and in another pair */
} fovea_kv_copy_params;

typedef enum fovea_norm_kind { FOVEA_NORM_RMS = 0, FOVEA_NORM_LAYER = 1, FOVEA_NORM_L2 = 2 } fovea_norm_kind;
typedef enum fovea_gate_kind { FOVEA_GATE_NONE = 0, FOVEA_GATE_SILU = 1, FOVEA_GATE_SIGMOID = 2 } fovea_gate_kind;

/* Normalises over the last dim; all sums in f32. Per-head QK norm is rank 3. docs/norm.md */
typedef struct fovea_norm_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_norm_params));
  int32_t kind FOVEA_DEFAULT(FOVEA_NORM_RMS);
  fovea_tensor x FOVEA_DEFAULT({});            /* rank 2 to 4, [.., n]; float */
  fovea_tensor out FOVEA_DEFAULT({});          /* x's shape; float; may be x */
  fovea_tensor weight FOVEA_DEFAULT({});       /* optional float [n]; not for L2 */
  fovea_tensor bias FOVEA_DEFAULT({});         /* optional float [n]; layer only */
  fovea_tensor residual FOVEA_DEFAULT({});     /* optional float, x's shape: x + residual is normalised */
  fovea_tensor residual_out FOVEA_DEFAULT({}); /* optional, with residual: receives x + residual; may be residual */
  fovea_tensor gate FOVEA_DEFAULT({});         /* optional float, x's shape, with gate_kind */
  int32_t gate_kind FOVEA_DEFAULT(FOVEA_GATE_NONE);
  int32_t gate_first FOVEA_DEFAULT(0); /* 1: x * act(gate) is normalised; 0: the result is multiplied by act(gate) */
  float eps FOVEA_DEFAULT(1e-6f);      /* rms, layer: beside the mean square; l2: beside the sum of squares */
  float weight_offset FOVEA_DEFAULT(0.0f); /* added to weight: 1 where the model stores w - 1 */
} fovea_norm_params;

typedef enum fovea_glu_kind {
  FOVEA_GLU_SILU = 0,
  FOVEA_GLU_GELU_TANH = 1,
  FOVEA_GLU_GELU_ERF = 2,
  FOVEA_GLU_CLAMPED_SWIGLU = 3 /* g' (1 / (1 + exp(-alpha g'))) (u' + 1), g' = min(g, limit), u' = clamp(u, +-limit) */
} fovea_glu_kind;

/* out = act(gate) * up. docs/glu.md */
typedef struct fovea_glu_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_glu_params));
  int32_t kind FOVEA_DEFAULT(FOVEA_GLU_SILU);
  fovea_tensor gate FOVEA_DEFAULT({}); /* [tokens, n]; float; any last stride (interleaved gate and up: 2) */
  fovea_tensor up FOVEA_DEFAULT({});   /* gate's shape; float; any last stride */
  fovea_tensor out FOVEA_DEFAULT({});  /* gate's shape; float */
  float alpha FOVEA_DEFAULT(1.702f);   /* clamped swiglu */
  float limit FOVEA_DEFAULT(7.0f);     /* clamped swiglu */
} fovea_glu_params;

/* out[m, n] = sum_k x[m, k] w[n, k] + bias[n]. docs/matmul.md */
typedef struct fovea_matmul_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_matmul_params));
  fovea_tensor x FOVEA_DEFAULT({});       /* [m, k]; float */
  fovea_tensor w FOVEA_DEFAULT({});       /* [n, k]; float, e4m3 or a block type (rows of whole blocks) */
  fovea_tensor w_scale FOVEA_DEFAULT({}); /* of e4m3 weights; float [1], [n] or [ceil(n / 128), ceil(k / 128)] */
  fovea_tensor bias FOVEA_DEFAULT({});    /* optional float [n] */
  fovea_tensor out FOVEA_DEFAULT({});     /* [m, n]; float */
} fovea_matmul_params;

/* out[t] = scale * table[ids[t]]. docs/embed.md */
typedef struct fovea_embed_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_embed_params));
  float scale FOVEA_DEFAULT(1.0f);
  fovea_tensor ids FOVEA_DEFAULT({});         /* index [tokens], in [0, vocab) */
  fovea_tensor table FOVEA_DEFAULT({});       /* [vocab, n]; float, e4m3 or a block type */
  fovea_tensor table_scale FOVEA_DEFAULT({}); /* as matmul's w_scale, of [vocab, n] */
  fovea_tensor out FOVEA_DEFAULT({});         /* [tokens, n]; float */
} fovea_embed_params;

typedef enum fovea_logprobs_kind {
  FOVEA_LOGPROBS_RAW = 0,      /* log softmax of the logits as given */
  FOVEA_LOGPROBS_PROCESSED = 1 /* of what is drawn from: after every step; greedy: after penalties, bias and mask */
} fovea_logprobs_kind;

/* One token per row. Order: penalties, bias, bit mask, temperature, top-k, top-p over the renormalised top-k, min-p.
 * Draws are Philox by (seed, position) of the row, whatever the batch. Ties go to the lowest index. Ragged lists lie
 * one after the other: list l is elements [indptr[l], indptr[l + 1]). docs/sample.md */
typedef struct fovea_sample_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_sample_params));
  int32_t top_k FOVEA_DEFAULT(0);        /* at most 0, or at least vocab: off */
  float temperature FOVEA_DEFAULT(0.0f); /* 0 = greedy */
  float top_p FOVEA_DEFAULT(1.0f);       /* [0, 1]; 0 keeps the best token */
  float min_p FOVEA_DEFAULT(0.0f);       /* [0, 1] */
  uint64_t seed FOVEA_DEFAULT(0);
  fovea_tensor logits FOVEA_DEFAULT({}); /* [rows, vocab]; float */
  fovea_tensor tokens
      FOVEA_DEFAULT({}); /* index [rows]; receives the token, or -1 where no logit is a number above -inf */
  fovea_tensor positions FOVEA_DEFAULT({}); /* index [rows]; required unless temperature is 0 and alone */
  /* Per-row values, each optional [rows]; given, it replaces the scalar, which must be left at its default. */
  fovea_tensor temperatures FOVEA_DEFAULT({}); /* f32 */
  fovea_tensor top_ks FOVEA_DEFAULT({});       /* i32 */
  fovea_tensor top_ps FOVEA_DEFAULT({});       /* f32 */
  fovea_tensor min_ps FOVEA_DEFAULT({});       /* f32 */
  fovea_tensor seeds FOVEA_DEFAULT({});        /* u64 or i64 */
  /* Penalties on tokens of the row's history; with history_tokens and history_indptr. */
  float repetition_penalty FOVEA_DEFAULT(1.0f); /* above 0; 1 = off */
  float presence_penalty FOVEA_DEFAULT(0.0f);   /* 0 = off */
  float frequency_penalty FOVEA_DEFAULT(0.0f);  /* 0 = off */
  int32_t logprobs_kind FOVEA_DEFAULT(FOVEA_LOGPROBS_RAW);
  fovea_tensor repetition_penalties FOVEA_DEFAULT({}); /* f32 [rows] */
  fovea_tensor presence_penalties FOVEA_DEFAULT({});   /* f32 [rows] */
  fovea_tensor frequency_penalties FOVEA_DEFAULT({});  /* f32 [rows] */
  fovea_tensor history_tokens FOVEA_DEFAULT({});       /* index [n]: lists of earlier tokens, each prompt first */
  fovea_tensor history_indptr FOVEA_DEFAULT({});       /* index [lists + 1] */
  fovea_tensor history_rows FOVEA_DEFAULT({}); /* optional index [rows]: the row's list, -1 = none; else row r has
                                                  list r */
  fovea_tensor history_prompt_lens FOVEA_DEFAULT({}); /* optional index [lists]: how many are of the prompt; else 0 */
  /* Added to logits; ids of a list may repeat. */
  fovea_tensor bias_ids FOVEA_DEFAULT({});    /* index [n] */
  fovea_tensor bias_values FOVEA_DEFAULT({}); /* f32 [n]; may be infinite */
  fovea_tensor bias_indptr FOVEA_DEFAULT({}); /* index [lists + 1] */
  fovea_tensor bias_rows FOVEA_DEFAULT({});   /* optional index [rows]: as history_rows */
  /* Allowed tokens, LSB first: bit i of a mask is token i. */
  fovea_tensor mask_bits FOVEA_DEFAULT({}); /* u32 or i32 [masks, words], 32 * words at least vocab */
  fovea_tensor mask_rows
      FOVEA_DEFAULT({}); /* optional index [rows]: the row's mask, -1 = none; else row r has mask r */
  /* Outputs, each optional. Natural logarithms. */
  fovea_tensor logprobs FOVEA_DEFAULT({}); /* f32 [rows]: of the token; -inf where it is -1 */
  fovea_tensor top_ids FOVEA_DEFAULT({});  /* index [rows, n], n at most vocab: the likeliest, best first; then -1 */
  fovea_tensor top_logprobs FOVEA_DEFAULT({}); /* f32 [rows, n], with top_ids; then -inf */
  fovea_tensor probs FOVEA_DEFAULT({});        /* f32 [rows, vocab]: what the token was drawn from */
} fovea_sample_params;

/* Weights to a block type or e4m3: scales and codes are chosen for the least squared error. docs/quantize.md */
typedef struct fovea_quantize_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_quantize_params));
  fovea_tensor x FOVEA_DEFAULT({});     /* [n, k]; float */
  fovea_tensor out FOVEA_DEFAULT({});   /* x's shape; e4m3 or a block type (rows of whole blocks) */
  fovea_tensor scale FOVEA_DEFAULT({}); /* receives the scales of e4m3; f32, shaped as matmul's w_scale */
} fovea_quantize_params;

/* Speculative decoding: walks down each request's tree of draft tokens, accepts or rejects them so that the tokens have
 * the distribution of `sample`, and draws the token after the last accepted one. docs/verify.md */
typedef struct fovea_verify_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_verify_params));
  /* As in sample, with logits [nodes, vocab], a value per request where sample has one per row (mask_rows: per node),
   * and positions of the token after the root. Drafts on the way count as output tokens of the history. No outputs. */
  const fovea_sample_params* target FOVEA_DEFAULT(FOVEA_NULL);
  fovea_tensor cu_nodes FOVEA_DEFAULT({}); /* index [requests + 1]: starts at 0, ends at nodes; a root comes first */
  fovea_tensor draft_tokens FOVEA_DEFAULT({}); /* index [nodes]; of a root not read */
  fovea_tensor parents FOVEA_DEFAULT({}); /* optional index [nodes]: an earlier node, counted from the root; of a root
                                             not read; absent: chains */
  fovea_tensor draft_probs FOVEA_DEFAULT({}); /* optional float [m, vocab]: what drafts were drawn from */
  fovea_tensor draft_rows FOVEA_DEFAULT({});  /* with draft_probs, optional index [nodes]: the draft's row, -1 = it was
                                                 not drawn; of a root not read; absent: node i has row i */
  fovea_tensor accepted FOVEA_DEFAULT({});    /* index [requests]: accepted drafts */
  fovea_tensor tokens FOVEA_DEFAULT({});      /* index [requests, width]: those, the token after them, then -1 */
  fovea_tensor nodes FOVEA_DEFAULT({}); /* optional index [requests, width]: nodes of those, from the root; then -1 */
} fovea_verify_params;

#define FOVEA_OP(name, Name, NAME, value, text)                                                    \
  FOVEA_API void fovea_##name##_params_init(fovea_##name##_params* params);                        \
  FOVEA_API fovea_status fovea_##name(fovea_context* context, const fovea_##name##_params* params, \
                                      const fovea_exec* exec);
#include "fovea/operations.def"
#undef FOVEA_OP

FOVEA_EXTERN_C_END

#endif /* FOVEA_PARAMS_H_ */
