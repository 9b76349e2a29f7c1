// SPDX-License-Identifier: Apache-2.0
// attention: what lies between the two products: scales, softcap, ALiBi, masks, and one whole step of a warp.
#pragma once

#include "backend/cuda/kernels/attention_tile.cuh"

namespace fovea {

// The rows of a warp, in shared memory; written and read by that warp alone. Keys are held tokens of the segment.
struct WarpRows {
  int lo[kWarpRows], hi[kWarpRows];  // keys that the row sees by interval
  int position[kWarpRows];
  int token[kWarpRows];  // of the request
  float slope[kWarpRows];
};

// Facts of a launch, and of a block's kv head, that steps branch on. The same for all lanes.
struct StepRules {
  float logit_scale;        // of Q K, without scales of tokens
  float to_log2;            // from scores as the softmax sees them to powers of two
  bool may_fuse;            // see softmax
  bool transform;           // scores are worked on before the softmax; otherwise the scale is positive
  bool k_scaled, v_scaled;  // by token
  const float* factors;     // of the warp's rows, where rows have any
  bool bits;
  float k_scale;  // of K's main part, where it is not in logit_scale: beside a rope part
  float v_scale;  // of this segment, where scales do not differ by token
};

// `multi`: segments may differ in their scales, so that scores and outputs must have those in them.
inline StepRules step_rules(const AttentionArgs& a, int s, int kv_head, const float* factors) {
  const KvView& kv = a.kv[s];
  StepRules rules = {};
  rules.may_fuse = !a.spec.batch_invariant && !a.spec.chunk_invariant;
  rules.k_scale = uniform_scale(kv.spec.k, kv.k_scale, kv_head);
  rules.logit_scale = a.spec.scale * a.spec.q_scale * (config::d_rope > 0 ? 1.0f : rules.k_scale);
  rules.v_scale = uniform_scale(kv.spec.v, kv.spec.v_in_k ? kv.k_scale : kv.v_scale, kv_head);
  rules.transform = !(rules.logit_scale > 0);
  if constexpr (kGeneral) {
    rules.k_scaled = kNarrowK;
    rules.v_scaled = kNarrowV || (kNarrowK && kVInK);
    for (int i = 0; i < a.spec.segments; ++i) {
      const KvSpec& any = a.spec.kv[i];
      rules.k_scaled |= scaled_per_token(any.k) || (a.spec.segments > 1 && any.k.scale_kind != ScaleKind::none);
      rules.v_scaled |= scaled_per_token(any.v) || (a.spec.segments > 1 && any.v.scale_kind != ScaleKind::none);
    }
    rules.factors = factors;
    rules.bits = a.mask_bits.given();
    rules.transform |= rules.k_scaled || factors != nullptr || a.spec.softcap > 0 || a.alibi_slopes.given();
  }
  rules.to_log2 = rules.transform ? 1.0f : rules.logit_scale * kLog2e;
  return rules;
}

// tanh to about 2^-23 of itself: the hardware's has 11 bits. Series below 0.6, where the next term is below 2^-25;
// above, by an exponential.
inline float tanh_exact(float x) {
  const float y = fabsf(x), z = x * x;
  float series = __fmaf_rn(z, 6404582.0f / 10854718875.0f, -929569.0f / 638512875.0f);
  series = __fmaf_rn(series, z, 21844.0f / 6081075.0f);
  series = __fmaf_rn(series, z, -1382.0f / 155925.0f);
  series = __fmaf_rn(series, z, 62.0f / 2835.0f);
  series = __fmaf_rn(series, z, -17.0f / 315.0f);
  series = __fmaf_rn(series, z, 2.0f / 15.0f);
  series = __fmaf_rn(series, z, -1.0f / 3.0f);
  series = __fmaf_rn(series * z, x, x);
  const float e = ptx::exp2_approx(y * (2 * kLog2e)) + 1.0f;
  float inverse = ptx::rcp_approx(e);
  inverse = e < 1e30f ? __fmaf_rn(inverse, __fmaf_rn(-e, inverse, 1.0f), inverse) : 0.0f;
  return y < 0.6f ? series : copysignf(__fmaf_rn(-2.0f, inverse, 1.0f), x);
}

// Raw products to logits in powers of two. `key`: held token of the lane's first column.
template <class Stage>
inline void transform_scores(const AttentionArgs& a, const AttentionRequest& r, int s, const StepRules& rules,
                             const WarpRows& rows, const Stage& stage, Scores& scores, int first_key) {
  const int lane = lane_id();
  const bool alibi = a.alibi_slopes.given(), sharded = a.spec.kv[s].shard.world > 1;
  const int offset = static_cast<int>(r.segment[s].offset);
  const float cap = a.spec.softcap, inverse_cap = cap > 0 ? 1.0f / cap : 0.0f;
  const bool token_scales = config::d_rope == 0 && (kNarrowK || scaled_per_token(a.spec.kv[s].k));
#pragma unroll
  for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int n = fragment_column(lane) + fragment_step(j, e);
      const float scale = rules.logit_scale * (token_scales ? stage.scale[0][n] : 1.0f);
      int position = 0;
      if (alibi) {
        position = sharded ? static_cast<int>(attention_key_position(a, r, s, first_key + n)) : offset + first_key + n;
      }
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = i * 16 + fragment_row(lane, h);
          float x = scores[i][j][2 * h + e] * scale;
          if (rules.factors != nullptr) x *= rules.factors[row];
          if (cap > 0) x = cap * tanh_exact(x * inverse_cap);
          if (alibi) x -= rows.slope[row] * fabsf(static_cast<float>(rows.position[row] - position));
          scores[i][j][2 * h + e] = x * kLog2e;
        }
      }
    }
  }
}

// Scores of keys that a row does not see become -inf. Lane l has in `word` what row l % kWarpRows sees.
inline void apply_mask(Scores& scores, u64_t word) {
  const int lane = lane_id();
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u64_t seen = __shfl_sync(kAllLanes, word, i * 16 + fragment_row(lane, h)) >> fragment_column(lane);
      const unsigned half[2] = {static_cast<unsigned>(seen), static_cast<unsigned>(seen >> 32)};
#pragma unroll
      for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int bit = fragment_step(j, e);
          if ((half[bit / 32] >> bit % 32 & 1) == 0) scores[i][j][2 * h + e] = minus_infinity();
        }
      }
    }
  }
}

// The same by interval and packed bits. `alive`: bit n, key n of the step exists.
inline void mask_scores(const AttentionArgs& a, const AttentionRequest& r, int s, bool bits, const WarpRows& rows,
                        Scores& scores, int first_key, u64_t alive) {
  const int mine = lane_id() % kWarpRows;
  const Interval held = {rows.lo[mine], rows.hi[mine]};
  u64_t word = interval_bits({held.lo - first_key, held.hi - first_key}) & alive;
  if (bits && word != 0) word &= attention_visible(a, r, s, rows.token[mine], held, first_key);
  apply_mask(scores, word);
}

// Probabilities times the scales of V's tokens. O is kept in a unit that holds those of the step, so that a product
// with a small scale does not fall out of f16. Scales of keys that the lane's rows do not see do not matter.
template <class Stage>
inline void scale_probabilities(const StepRules& rules, bool by_token, const Stage& stage, Scores& p, Output& o,
                                RowState& state) {
  const int column = fragment_column(lane_id());
  float scale[kNTiles][2], largest = 0;
#pragma unroll
  for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      scale[j][e] = (by_token ? stage.scale[1][column + fragment_step(j, e)] : 1.0f) * rules.v_scale;
      const float size = fabsf(scale[j][e]);
      bool seen = false;
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) seen = seen || p[i][j][e] != 0 || p[i][j][2 + e] != 0;
      if (seen && size <= 3.4e38f) largest = fmaxf(largest, size);
    }
  }
  largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, kRowStep1));
  largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, kRowStep2));
  if (largest > 2 * state.unit) {
    const float unit = float_of_bits(bits_of_float(largest) & 0x7F800000u);
    const float shrink = unit > 0 ? state.unit / unit : 1.0f;
    if (unit > 0) {
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
        for (int j = 0; j < kOTiles; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) o[i][j][e] *= shrink;
        }
      }
      state.unit = unit;
    }
  }
  const float inverse = state.unit > 0 ? 1.0f / state.unit : 0.0f;
#pragma unroll
  for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float factor = scale[j][e] * inverse;
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& x = p[i][j][2 * h + e];
          x = x == 0 ? 0.0f : x * factor;
        }
      }
    }
  }
}

// Intervals and options of the warp's rows, one lane a row, and what all of them see.
inline void find_rows(const AttentionArgs& a, const AttentionRequest& r, int s, RowBlock block, int first_row,
                      int kv_head, WarpRows& rows, int& full_lo, int& full_hi, int& any_lo, int& any_hi) {
  const int group = a.spec.group;
  full_lo = 0, full_hi = 0x7FFFFFFF, any_lo = 0x7FFFFFFF, any_hi = 0;
#pragma unroll
  for (int i = lane_id(); i < kWarpRows; i += 32) {
    const int index = block.first + first_row + i, token = index / group;
    Interval held;
    if (first_row + i < block.count) held = row_keys(a, r, s, token);
    const int lo = held.empty() ? 0 : static_cast<int>(held.lo), hi = held.empty() ? 0 : static_cast<int>(held.hi);
    rows.lo[i] = lo;
    rows.hi[i] = hi;
    rows.token[i] = token;
    if (kGeneral && a.alibi_slopes.given()) {
      const int head = kv_head * group + index - token * group;
      rows.position[i] = static_cast<int>(attention_position(r, token));
      const bool inside = first_row + i < block.count;
      rows.slope[i] = inside ? load<float>(row(a.alibi_slopes, r.b, i64_t{head})) : 0.0f;
    }
    full_lo = max(full_lo, lo);
    full_hi = min(full_hi, hi);
    if (lo < hi) any_lo = min(any_lo, lo), any_hi = max(any_hi, hi);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    full_lo = max(full_lo, __shfl_xor_sync(kAllLanes, full_lo, step));
    full_hi = min(full_hi, __shfl_xor_sync(kAllLanes, full_hi, step));
    any_lo = min(any_lo, __shfl_xor_sync(kAllLanes, any_lo, step));
    any_hi = max(any_hi, __shfl_xor_sync(kAllLanes, any_hi, step));
  }
  __syncwarp();
}

// Scores times K's scales, by token or one for all.
template <class Stage>
inline void scale_columns(Scores& scores, float scale, bool by_token, const Stage& stage) {
  const int column = fragment_column(lane_id());
#pragma unroll
  for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (by_token) scale = stage.scale[0][column + fragment_step(j, e)];
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) scores[i][j][2 * h + e] *= scale;
      }
    }
  }
}
// Scores times the scale, where it is not positive and so cannot be left to the softmax.
inline void scale_scores(Scores& scores, float scale) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kNTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[i][j][e] *= scale;
    }
  }
}

// One step: the warp's rows against the keys of a stage.
template <class Stage>
inline void attend_step(bool by_key, const AttentionArgs& a, const AttentionRequest& r, int s, const StepRules& rules,
                        const WarpRows& rows, const Stage& stage, unsigned q, int first_key, int full_lo, int full_hi,
                        int v_dim, Output& o, RowState& state) {
  Scores scores;
  multiply_qk(scores, q, stage);
  if constexpr (config::d_rope > 0) {
    // The scales of K are those of its main part.
    if (rules.k_scale != 1.0f || (kGeneral && scaled_per_token(a.spec.kv[s].k))) {
      scale_columns(scores, rules.k_scale, kGeneral && scaled_per_token(a.spec.kv[s].k), stage);
    }
    multiply_rope(scores, q, stage);
  }
  if constexpr (kGeneral) {
    if (rules.transform) transform_scores(a, r, s, rules, rows, stage, scores, first_key);
  } else {
    if (rules.transform) scale_scores(scores, rules.logit_scale * kLog2e);
  }
  const bool bad = stage.any_bad(), bits = kGeneral && rules.bits;
  if (first_key < full_lo || first_key + kKeys > full_hi || bad || bits) {
    mask_scores(a, r, s, bits, rows, scores, first_key, bad ? ~stage.bad_keys() : ~u64_t{0});
  }
  softmax(scores, o, state, rules.to_log2, false);
  if constexpr (kGeneral) {
    constexpr bool kNarrow = kNarrowV || (kNarrowK && kVInK);
    if (rules.v_scaled)
      scale_probabilities(rules, kNarrow || scaled_per_token(a.spec.kv[s].v), stage, scores, o, state);
  }
  if (by_key) {
    multiply_pv_by_key(o, scores, stage, v_dim);
  } else {
    multiply_pv(o, scores, stage, v_dim);
  }
}

}  // namespace fovea
