// SPDX-License-Identifier: Apache-2.0
// norm, glu, matmul, embed and quantize.
#include "bench/case.h"
#include "bench/cases/kv.h"

namespace fovea::bench {

NormParams norm_params(const Shape& s, Data& data) {
  NormParams p{.kind = s.norm_kind,
               .x = data.random(s.type, {s.tokens(), s.hidden}),
               .out = data.output(s.type, {s.tokens(), s.hidden})};
  if (s.norm_kind != FOVEA_NORM_L2) p.weight = data.random(s.type, {s.hidden});
  if (s.norm_kind == FOVEA_NORM_LAYER) p.bias = data.random(s.type, {s.hidden});
  if (s.residual) {
    p.residual = data.random(s.type, {s.tokens(), s.hidden});
    p.residual_out = data.output(s.type, {s.tokens(), s.hidden});
  }
  if (s.gate_kind != FOVEA_GATE_NONE) {
    p.gate = data.random(s.type, {s.tokens(), s.hidden});
    p.gate_kind = s.gate_kind;
  }
  return p;
}

Work norm_work(const Shape& s) {
  const double elements = static_cast<double>(s.tokens()) * static_cast<double>(s.hidden);
  const double tensors = 2 + (s.residual ? 2 : 0) + (s.gate_kind != FOVEA_GATE_NONE ? 1 : 0);
  return {.bytes = bytes_of(s.type, tensors * elements), .flops = 4 * elements};
}

GluParams glu_params(const Shape& s, Data& data) {
  return {.kind = s.glu_kind,
          .gate = data.random(s.type, {s.tokens(), s.ffn}),
          .up = data.random(s.type, {s.tokens(), s.ffn}),
          .out = data.output(s.type, {s.tokens(), s.ffn})};
}

Work glu_work(const Shape& s) {
  const double elements = static_cast<double>(s.tokens()) * static_cast<double>(s.ffn);
  return {.bytes = bytes_of(s.type, 3 * elements), .flops = 2 * elements};
}

MatmulParams matmul_params(const Shape& s, Data& data) {
  MatmulParams p{.x = data.random(s.type, {s.tokens(), s.k}),
                 .w = data.random(s.w_type, {s.n, s.k}),
                 .out = data.output(s.type, {s.tokens(), s.n})};
  if (s.w_type == FOVEA_E4M3) p.w_scale = data.random(FOVEA_F32, {s.n});
  if (s.bias) p.bias = data.random(s.type, {s.n});
  return p;
}

Work matmul_work(const Shape& s) {
  const auto m = static_cast<double>(s.tokens()), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  return {.bytes = bytes_of(s.type, m * k + m * n + (s.bias ? n : 0)) + bytes_of(s.w_type, n * k) +
                   (s.w_type == FOVEA_E4M3 ? bytes_of(FOVEA_F32, n) : 0),
          .flops = 2 * m * n * k};
}

EmbedParams embed_params(const Shape& s, Data& data) {
  EmbedParams p{.ids = data.index<int32_t>({s.tokens()},
                                           [&](int32_t* ids) {
                                             for (int64_t i = 0; i < s.tokens(); ++i) {
                                               ids[i] = static_cast<int32_t>(data.rng().below(s.vocab));
                                             }
                                           }),
                .table = data.common(s.w_type, {s.vocab, s.hidden}),
                .out = data.output(s.type, {s.tokens(), s.hidden})};
  if (s.w_type == FOVEA_E4M3) p.table_scale = data.common(FOVEA_F32, {s.vocab});
  return p;
}

Work embed_work(const Shape& s) {
  const double elements = static_cast<double>(s.tokens()) * static_cast<double>(s.hidden);
  return {.bytes = bytes_of(s.w_type, elements) + bytes_of(s.type, elements)};
}

QuantizeParams quantize_params(const Shape& s, Data& data) {
  QuantizeParams p{.x = data.random(s.type, {s.n, s.k}), .out = data.output(s.quantized_type, {s.n, s.k})};
  if (s.quantized_type == FOVEA_E4M3) p.scale = data.output(FOVEA_F32, {s.n});
  return p;
}

Work quantize_work(const Shape& s) {
  const double elements = static_cast<double>(s.n) * static_cast<double>(s.k);
  return {.bytes = bytes_of(s.type, elements) + bytes_of(s.quantized_type, elements)};
}

}  // namespace fovea::bench
