// SPDX-License-Identifier: Apache-2.0
#include "bench/cases/kv.h"

#include <utility>

#include "bench/case.h"

namespace fovea::bench {

namespace {

int32_t element_type(int32_t codec) {
  switch (codec) {
#define FOVEA_CODEC(name, NAME, value, dtype) \
  case value:                                 \
    return FOVEA_##dtype;
#include "fovea/codecs.def"
#undef FOVEA_CODEC
    default:
      return FOVEA_DTYPE_NONE;
  }
}

// A [pages, tokens, heads, dims] stream; in memory heads stand before tokens for layout hnd.
KvStream make_stream(const Shape& s, Data& data, int32_t dtype, int64_t page_size, int64_t pages, int64_t dims,
                     Reuse reuse) {
  const auto fill = reuse == Reuse::kCommon ? &Data::common : &Data::random;
  const bool hnd = s.layout == kHnd;
  Tensor t = hnd ? (data.*fill)(dtype, {pages, s.kv_heads, page_size, dims})
                 : (data.*fill)(dtype, {pages, page_size, s.kv_heads, dims});
  if (hnd) {
    std::swap(t.shape[1], t.shape[2]);
    std::swap(t.stride[1], t.stride[2]);
  }
  return stream(t);
}

KvSide make_side(const Shape& s, Data& data, int64_t page_size, int64_t pages, int64_t dims, Reuse reuse) {
  KvSide side{.codec = s.codec, .scale_kind = s.kv_scale_kind()};
  side.data = make_stream(s, data, element_type(s.codec), page_size, pages, dims, reuse);
  if (side.scale_kind == FOVEA_SCALE_NONE) return side;
  side.scale_dtype = FOVEA_F32;
  switch (side.scale_kind) {
    case FOVEA_SCALE_TENSOR:
      side.scale.base = data.random(FOVEA_F32, {1}).data;
      break;
    case FOVEA_SCALE_HEAD:
      side.scale.base = data.random(FOVEA_F32, {s.kv_heads}).data;
      side.scale.head_stride = fovea_dtype_bytes(FOVEA_F32, 1);
      break;
    case FOVEA_SCALE_TOKEN_HEAD:
      side.scale = make_stream(s, data, FOVEA_F32, page_size, pages, 1, reuse);
      break;
    default:
      side.scale_group = static_cast<int32_t>(s.scale_group);
      side.scale = make_stream(s, data, FOVEA_F32, page_size, pages, (dims + s.scale_group - 1) / s.scale_group, reuse);
  }
  return side;
}

Kv store(const Shape& s, int64_t page_size, int64_t pages) {
  return {.heads = static_cast<int32_t>(s.kv_heads),
          .d_k = static_cast<int32_t>(s.head_dim),
          .d_v = static_cast<int32_t>(s.d_v()),
          .page_size = static_cast<int32_t>(page_size),
          .v_in_k = s.v_in_k,
          .pages = pages};
}

KvSide coded_side(const Shape& s) {
  return {.codec = s.codec, .scale_kind = s.kv_scale_kind(), .scale_dtype = FOVEA_F16};
}

// A pool of records. What the library does not lay out, it refuses by name when it is to read it.
Kv make_records(const Shape& s, Data& data, int64_t page_size, int64_t pages, Reuse reuse) {
  constexpr int64_t kAlign = 128;  // of a pool, bytes
  Kv kv = store(s, page_size, pages);
  kv.record_version = 1;
  kv.k = coded_side(s);
  if (!s.v_in_k) kv.v = coded_side(s);
  int64_t bytes = 0;
  if (fovea_kv_record(&kv, nullptr, &bytes) != FOVEA_OK) return kv;
  // As f16 every scale is an ordinary number; codes are any bits.
  const auto fill = reuse == Reuse::kCommon ? &Data::common : &Data::random;
  const Tensor pool = (data.*fill)(FOVEA_F16, {(bytes + kAlign) / 2});
  if (pool.data == nullptr) return kv;
  auto* at = static_cast<std::byte*>(pool.data);
  at += (kAlign - reinterpret_cast<uintptr_t>(at) % kAlign) % kAlign;
  lay_out_records(kv, at);
  return kv;
}

double side_bytes(const Shape& s, int64_t dims) {
  double bytes = bytes_of(element_type(s.codec), static_cast<double>(dims));
  if (s.kv_scale_kind() == FOVEA_SCALE_TOKEN_HEAD) bytes += bytes_of(FOVEA_F32, 1);
  if (s.kv_scale_kind() == FOVEA_SCALE_GROUP) {
    const int64_t groups = (dims + s.scale_group - 1) / s.scale_group;
    bytes += bytes_of(FOVEA_F32, static_cast<double>(groups));
  }
  return bytes;
}

}  // namespace

Kv make_cache(const Shape& s, Data& data, int64_t page_size, int64_t pages, Reuse reuse) {
  if (s.has_codes()) return make_records(s, data, page_size, pages, reuse);
  Kv kv = store(s, page_size, pages);
  kv.k = make_side(s, data, page_size, pages, s.head_dim, reuse);
  if (!s.v_in_k) kv.v = make_side(s, data, page_size, pages, s.d_v(), reuse);
  return kv;
}

double token_bytes(const Shape& s) {
  if (s.has_codes()) {
    constexpr int32_t kPage = 128;
    Kv kv = store(s, kPage, 1);
    kv.k = kv.v = coded_side(s);
    int64_t bytes = 0;
    return fovea_kv_record(&kv, nullptr, &bytes) == FOVEA_OK ? static_cast<double>(bytes) / kPage : 0;
  }
  return static_cast<double>(s.kv_heads) * (side_bytes(s, s.head_dim) + (s.v_in_k ? 0 : side_bytes(s, s.d_v())));
}

double bytes_of(int32_t dtype, double elements) {
  // 4096 elements are whole blocks of every type.
  return elements * static_cast<double>(fovea_dtype_bytes(dtype, 4096)) / 4096;
}

}  // namespace fovea::bench
