// SPDX-License-Identifier: Apache-2.0
#include "oracle/attention64.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/kv64.h"
#include "oracle/numbers.h"

namespace fovea::oracle {
namespace {

constexpr double kU32 = 0x1p-24;
constexpr double kInf = std::numeric_limits<double>::infinity();

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

double number_at(const fovea_tensor& t, int64_t i) {
  return decode(t.dtype, static_cast<const std::byte*>(t.data) + element_offset(t, i) * bytes_of(t.dtype));
}

// The type of the matrix products' operands: 16-bit Q never goes through e4m3, f32 Q follows the KV: K, or V where K is
// e4m3 and V has 16 bits.
int32_t operand_type(const fovea_attention_params& p) {
  const auto type = [](int32_t codec) { return grid_of(codec) != nullptr ? int32_t{FOVEA_E4M3} : codec_dtype(codec); };
  const int32_t k = type(p.kv[0].k.codec), v = p.kv[0].v_in_k ? k : type(p.kv[0].v.codec);
  const int32_t kv = k == FOVEA_E4M3 && (v == FOVEA_F16 || v == FOVEA_BF16) ? v : k;
  if (p.q.dtype == FOVEA_F16 || p.q.dtype == FOVEA_BF16) return p.q.dtype;
  if (p.q.dtype == FOVEA_E4M3) return kv == FOVEA_F32 ? FOVEA_F16 : kv;
  return kv == FOVEA_E4M3 ? FOVEA_F16 : kv;
}

// e4m3 probabilities are stored times 2^8, so that small ones survive.
float round_p(int32_t operand, float x) {
  if (operand == FOVEA_F32) return x;
  const double lift = operand == FOVEA_E4M3 ? 256 : 1;
  return static_cast<float>(round_to(operand, x * lift) / lift);
}

// Half a step of a type relative to the number; for f32 it is in the bound's other terms.
double unit_roundoff(int32_t dtype) {
  switch (dtype) {
    case FOVEA_F16:
      return 0x1p-11;
    case FOVEA_BF16:
      return 0x1p-8;
    case FOVEA_E4M3:
      return 0x1p-4;
    default:
      return 0;
  }
}

// One sequence's decoded keys and values of one kv head; only visible keys are ever read.
struct Tokens {
  std::vector<double> k, v, v_size;
  std::vector<double> k_norm;  // of rotated keys, else 0
  std::vector<bool> read;
};

double norm(const std::vector<double>& x) {
  double squares = 0;
  for (const double e : x) squares += e * e;
  return std::sqrt(squares);
}

struct Row {
  std::vector<int64_t> keys;    // visible, ascending
  std::vector<double> logits;   // of them
  std::vector<double> weight;   // sum |scale q k| + |logit| + |bias|: what an fp32 rounding is relative to
  std::vector<float> logits32;  // the same-precision reference
};

struct Problem {
  const fovea_attention_params& p;
  int64_t b;
  Sequence seq;
  int64_t heads, d_k, d_v;
  double scale;
};

double slope_of(const Problem& a, int64_t h) {
  if (!a.p.alibi_slopes.dtype) return 0;
  return number_at(a.p.alibi_slopes, a.p.alibi_slopes.rank == 2 ? a.b * a.heads + h : h);
}

void read_key(const Problem& a, Tokens& tokens, int64_t kv_head, int64_t j) {
  const auto at = static_cast<size_t>(j);
  if (tokens.read[at]) return;
  tokens.read[at] = true;
  const Key key = key_at(a.p, a.b, j);
  const fovea_kv& kv = a.p.kv[key.segment];
  const Slot k_slot = kv_slot(kv, a.b, key.token, false);
  const Slot v_slot = kv.v_in_k ? k_slot : kv_slot(kv, a.b, key.token, true);
  const std::vector<double> k = k_vector(kv, k_slot, kv_head), v = v_vector(kv, v_slot, kv_head);
  std::copy(k.begin(), k.end(), tokens.k.begin() + j * a.d_k);
  std::copy(v.begin(), v.end(), tokens.v.begin() + j * a.d_v);
  // What roundings are relative to: of rotated vectors any element's size may reach any other.
  const bool mixed_v = grid_of(kv.v_in_k ? kv.k.codec : kv.v.codec) != nullptr;
  const double mean = mixed_v ? norm(v) / std::sqrt(static_cast<double>(a.d_v)) : 0;
  for (int64_t d = 0; d < a.d_v; ++d) {
    tokens.v_size[at * static_cast<size_t>(a.d_v) + static_cast<size_t>(d)] =
        std::fabs(v[static_cast<size_t>(d)]) + mean;
  }
  tokens.k_norm[at] = grid_of(kv.k.codec) != nullptr ? norm(k) : 0;
}

Row logits_of(const Problem& a, const Tokens& tokens, const std::vector<int64_t>& keys, int64_t i, int64_t h) {
  Row row{keys, {}, {}, {}};
  const int64_t q_row = ((a.seq.first_row + i) * a.heads + h) * a.d_k;
  const double q_scale = a.p.q.dtype == FOVEA_E4M3 ? a.p.q_scale : 1.0;
  const int32_t operand = operand_type(a.p);
  std::vector<double> q(static_cast<size_t>(a.d_k));
  std::vector<float> q32(q.size());
  for (size_t d = 0; d < q.size(); ++d) {
    const double stored = number_at(a.p.q, q_row + static_cast<int64_t>(d));
    q[d] = stored * q_scale;
    const double rounded = a.p.q.dtype == FOVEA_F32 ? round_to(operand, stored) : stored;
    q32[d] = static_cast<float>(std::isfinite(rounded) ? rounded : stored);
  }
  const int64_t position = a.seq.len - a.seq.n + i;
  const double slope = slope_of(a, h);
  const double cap = a.p.softcap;
  for (int64_t j : keys) {
    const double* k = tokens.k.data() + j * a.d_k;
    double dot = 0, size = 0;
    float dot32 = 0;
    for (size_t d = 0; d < q.size(); ++d) {
      dot += q[d] * k[d];
      size += std::fabs(q[d] * k[d]);
      dot32 += q32[d] * static_cast<float>(k[d]);
    }
    size += tokens.k_norm[static_cast<size_t>(j)] * norm(q);
    double x = a.scale * dot;
    float x32 = static_cast<float>(a.scale * q_scale) * dot32;
    if (cap > 0) {
      x = cap * std::tanh(x / cap);
      x32 = a.p.softcap * std::tanh(x32 / a.p.softcap);
    }
    const double bias = slope * static_cast<double>(std::llabs(position - j));
    row.logits.push_back(x - bias);
    row.logits32.push_back(x32 - static_cast<float>(bias));
    row.weight.push_back(std::fabs(a.scale) * size + std::fabs(x) + std::fabs(bias));
  }
  return row;
}

// Softmax and its product with V of one row and head, in T: fp64 (operand 0) or the same-precision form.
template <class T>
T attend(const Problem& a, const Tokens& tokens, const Row& row, const std::vector<T>& logits, int64_t h,
         int32_t operand, std::vector<T>& out) {
  const bool sink = a.p.sinks.dtype != 0;
  const T sink_logit = sink ? static_cast<T>(number_at(a.p.sinks, h)) : -std::numeric_limits<T>::infinity();
  T top = sink_logit;
  for (T x : logits) top = std::max(top, x);
  out.assign(static_cast<size_t>(a.d_v), T(0));
  if (top == -std::numeric_limits<T>::infinity()) return top;
  T sum = sink ? std::exp(sink_logit - top) : T(0);
  for (size_t n = 0; n < logits.size(); ++n) {
    const T e = std::exp(logits[n] - top);
    sum += e;
    const T w = operand ? static_cast<T>(round_p(operand, static_cast<float>(e))) : e;
    const double* v = tokens.v.data() + row.keys[n] * a.d_v;
    for (size_t d = 0; d < out.size(); ++d) out[d] += w * static_cast<T>(v[d]);
  }
  for (T& x : out) x /= sum;
  return top + std::log(sum);
}

// The standard deviation of the row's output, its largest over the dims, where every probability is off by up to half a
// step of the operand type at random. The plain reference is one sample of that: with few dims or equal values it may
// be a lucky one, and probabilities under another running maximum round to others.
double rounding_deviation(const Problem& a, const Tokens& tokens, const Row& row, double lse) {
  const double u = unit_roundoff(operand_type(a.p));
  double largest = 0;
  for (size_t d = 0; d < static_cast<size_t>(a.d_v); ++d) {
    double variance = 0;
    for (size_t n = 0; n < row.keys.size(); ++n) {
      const double x =
          std::exp(row.logits[n] - lse) * tokens.v[static_cast<size_t>(row.keys[n]) * static_cast<size_t>(a.d_v) + d];
      variance += x * x;
    }
    largest = std::max(largest, variance);
  }
  return u * std::sqrt(largest / 3);
}

void bound_row(const Problem& a, const Tokens& tokens, const Row& row, int64_t at, Attention64& r) {
  const double len = static_cast<double>(row.keys.size());
  const auto d_v = static_cast<size_t>(a.d_v);
  const double* out = r.out.data() + at * a.d_v;
  const double* same = r.same.data() + at * a.d_v;
  double* bound = r.out_bound.data() + at * a.d_v;
  double error = 2.5 * rounding_deviation(a, tokens, row, r.lse[static_cast<size_t>(at)]), largest = 0;
  for (size_t d = 0; d < d_v; ++d) {
    error = std::max(error, std::fabs(same[d] - out[d]));
    largest = std::max(largest, std::fabs(out[d]));
  }
  const double out_scale = a.p.out.dtype == FOVEA_E4M3 ? a.p.out_scale : 1.0;
  const double fixed =
      2 * error + ulp(a.p.out.dtype, largest / out_scale) * out_scale + smallest_subnormal(FOVEA_F32) * (len + 1);
  std::fill_n(bound, d_v, fixed);
  // f32 Q beside 16-bit keys may be the sum of two values of the keys' type.
  const double u = a.p.q.dtype == FOVEA_F32 ? unit_roundoff(operand_type(a.p)) : 0;
  double moved = 0;
  for (size_t n = 0; n < row.keys.size(); ++n) {
    const double w = std::exp(row.logits[n] - r.lse[static_cast<size_t>(at)]);
    const double *v = tokens.v.data() + row.keys[n] * a.d_v, *size = tokens.v_size.data() + row.keys[n] * a.d_v;
    const double shift = (4 * kU32 + u * u) * row.weight[n];
    moved += w * shift;
    for (size_t d = 0; d < d_v; ++d) {
      bound[d] += w * (kU32 * std::sqrt(len) * size[d] + shift * std::fabs(v[d] - out[d]));
    }
  }
  double& lse_bound = r.lse_bound[static_cast<size_t>(at)];
  lse_bound = 2 * lse_bound + ulp(FOVEA_F32, r.lse[static_cast<size_t>(at)]) + kU32 * std::sqrt(len) + moved;
}

void attend_row(const Problem& a, const Tokens& tokens, const std::vector<int64_t>& keys, int64_t i, int64_t h,
                Attention64& r) {
  const int64_t at = (a.seq.first_row + i) * a.heads + h;
  const Row row = logits_of(a, tokens, keys, i, h);
  std::vector<double> out;
  std::vector<float> out32;
  const double lse = attend<double>(a, tokens, row, row.logits, h, 0, out);
  const float lse32 = attend<float>(a, tokens, row, row.logits32, h, operand_type(a.p), out32);
  std::copy(out.begin(), out.end(), r.out.begin() + at * a.d_v);
  std::copy(out32.begin(), out32.end(), r.same.begin() + at * a.d_v);
  r.lse[static_cast<size_t>(at)] = lse;
  if (row.keys.empty()) return;  // exactly 0, and exactly -inf or the sink
  r.lse_bound[static_cast<size_t>(at)] = std::fabs(lse32 - lse);
  bound_row(a, tokens, row, at, r);
}

void attend_sequence(const Problem& a, Attention64& r) {
  const int64_t kv_heads = a.p.kv[0].heads;
  const auto len = static_cast<size_t>(a.seq.len);
  std::vector<std::vector<int64_t>> keys(static_cast<size_t>(a.seq.n));
  for (int64_t i = 0; i < a.seq.n; ++i) {
    for (int64_t j = 0; j < a.seq.len; ++j) {
      if (visible(a.p, a.b, i, j)) keys[static_cast<size_t>(i)].push_back(j);
    }
  }
  for (int64_t g = 0; g < kv_heads; ++g) {
    Tokens tokens{
        std::vector<double>(len * static_cast<size_t>(a.d_k)), std::vector<double>(len * static_cast<size_t>(a.d_v)),
        std::vector<double>(len * static_cast<size_t>(a.d_v)), std::vector<double>(len), std::vector<bool>(len)};
    for (const auto& row : keys) {
      for (int64_t j : row) read_key(a, tokens, g, j);
    }
    const int64_t group = a.heads / kv_heads;
    for (int64_t i = 0; i < a.seq.n; ++i) {
      for (int64_t h = g * group; h < (g + 1) * group; ++h) {
        attend_row(a, tokens, keys[static_cast<size_t>(i)], i, h, r);
      }
    }
  }
}

}  // namespace

int64_t batch_of(const fovea_attention_params& p) {
  return p.q.rank == 4 ? p.q.shape[0] : p.cu_seqlens_q.shape[0] - 1;
}

Sequence sequence_of(const fovea_attention_params& p, int64_t b) {
  Sequence s{0, 0, 0};
  if (p.q.rank == 4) {
    const int64_t start = p.q_starts.dtype ? index_at(p.q_starts, b) : 0;
    s.first_row = b * p.q.shape[1] + start;
    s.n = p.q_lens.dtype ? index_at(p.q_lens, b) : p.q.shape[1] - start;
  } else {
    s.first_row = index_at(p.cu_seqlens_q, b);
    s.n = index_at(p.cu_seqlens_q, b + 1) - s.first_row;
  }
  for (int i = 0; i < p.kv_segments; ++i) s.len += kv_len(p.kv[i], b);
  return s;
}

Key key_at(const fovea_attention_params& p, int64_t b, int64_t j) {
  int segment = 0;
  while (j >= kv_len(p.kv[segment], b)) j -= kv_len(p.kv[segment++], b);
  return {segment, j};
}

bool in_interval(const fovea_attention_params& p, int64_t b, int64_t i, int64_t j) {
  const Sequence s = sequence_of(p, b);
  const Key key = key_at(p, b, j);
  const fovea_kv& kv = p.kv[key.segment];
  if (key.token < kv_start(kv, b) || !kv_holds(kv, key.token)) return false;
  const int64_t at = s.len - s.n + i;
  switch (p.mask) {
    case FOVEA_MASK_CAUSAL:
      return j <= at;
    case FOVEA_MASK_WINDOW:
      return (p.window_left < 0 || j >= at - p.window_left) && (p.window_right < 0 || j <= at + p.window_right);
    case FOVEA_MASK_CHUNK:
      return j <= at && floor_div(j - p.chunk_origin, p.chunk_size) == floor_div(at - p.chunk_origin, p.chunk_size);
    default:
      return true;
  }
}

bool visible(const fovea_attention_params& p, int64_t b, int64_t i, int64_t j) {
  if (!in_interval(p, b, i, j)) return false;
  if (!p.mask_bits.dtype) return true;
  const Sequence s = sequence_of(p, b);
  const int64_t bit = j - (s.len - index_at(p.mask_lens, b));
  if (bit < 0) return true;
  const int64_t words = p.mask_bits.shape[p.mask_bits.rank - 1];
  const auto word = static_cast<uint32_t>(number_at(p.mask_bits, (s.first_row + i) * words + bit / 32));
  return word >> (bit % 32) & 1;
}

Attention64 attention64(const fovea_attention_params& p) {
  const fovea_kv& kv = p.kv[0];
  const int64_t heads = p.q.shape[p.q.rank - 2];
  int64_t rows = 1;
  for (int i = 0; i < p.q.rank - 2; ++i) rows *= p.q.shape[i];
  Attention64 r;
  r.out.assign(static_cast<size_t>(rows * heads * kv.d_v), 0);
  r.out_bound = r.same = r.out;
  r.lse.assign(static_cast<size_t>(rows * heads), -kInf);  // rows in no sequence: 0 and -inf, sinks or not
  r.lse_bound.assign(r.lse.size(), 0);
  const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(kv.d_k));
  for (int64_t b = 0; b < batch_of(p); ++b) {
    attend_sequence({p, b, sequence_of(p, b), heads, kv.d_k, kv.d_v, scale}, r);
  }
  return r;
}

}  // namespace fovea::oracle
