// SPDX-License-Identifier: Apache-2.0
#include "kv_cache.h"

#include <cstdlib>

#include "error.h"

namespace fovea::app {
namespace {

constexpr int64_t kAlignment = 64;  // bytes; a cache line

struct Codec {
  std::string_view name;
  int32_t id, dtype;
};
constexpr Codec kCodecs[] = {
#define FOVEA_CODEC(name, NAME, value, dtype) {#name, value, FOVEA_##dtype},
#include <fovea/codecs.def>
#undef FOVEA_CODEC
};

const Codec& find_codec(int32_t id) {
  for (const Codec& codec : kCodecs) {
    if (codec.id == id) return codec;
  }
  throw Error("KV codec number " + std::to_string(id) + " does not exist");
}

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int32_t parse_codec(std::string_view name) {
  for (const Codec& codec : kCodecs) {
    if (codec.name == name) return codec.id;
  }
  throw Error("KV type '" + std::string(name) + "' does not exist, allowed are " + codec_names());
}

std::string codec_names() {
  std::string names;
  for (const Codec& codec : kCodecs) names += (names.empty() ? "" : ", ") + std::string(codec.name);
  return names;
}

KvCache::KvCache(const Shape& shape) : shape_(shape), memory_(nullptr, std::free) {
  const Codec& codec = find_codec(shape.codec);
  k_bytes_ = fovea_dtype_bytes(codec.dtype, shape.d_k);
  v_bytes_ = fovea_dtype_bytes(codec.dtype, shape.d_v);
  scaled_ = codec.dtype == FOVEA_E4M3;
  const int64_t vectors = shape.kv_heads * shape.page_size;
  const int64_t scales = scaled_ ? 2 * vectors * static_cast<int64_t>(sizeof(float)) : 0;
  record_bytes_ = aligned(vectors * k_bytes_) + aligned(vectors * v_bytes_) + aligned(scales);
  // Not touched here: a page costs memory from its first token on.
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(bytes()))));
  if (memory_ == nullptr) throw Error("no memory for a KV cache of " + std::to_string(bytes()) + " bytes");
}

double KvCache::bytes_per_token() const {
  return static_cast<double>(shape_.layers * record_bytes_) / shape_.page_size;
}

Kv KvCache::layer(int64_t index) const {
  const int64_t vectors = shape_.kv_heads * shape_.page_size;
  std::byte* base = memory_.get() + index * shape_.pages * record_bytes_;
  const auto stream = [&](std::byte* start, int64_t vector_bytes) {
    return KvStream{start, record_bytes_, vector_bytes, vector_bytes * shape_.page_size};
  };
  const auto side = [&](std::byte* data, int64_t vector_bytes, std::byte* scale) {
    KvSide out;
    out.codec = shape_.codec;
    out.data = stream(data, vector_bytes);
    if (scaled_) {
      out.scale_kind = FOVEA_SCALE_TOKEN_HEAD;
      out.scale_dtype = FOVEA_F32;
      out.scale = stream(scale, sizeof(float));
    }
    return out;
  };
  std::byte* v = base + aligned(vectors * k_bytes_);
  std::byte* k_scale = v + aligned(vectors * v_bytes_);
  std::byte* v_scale = k_scale + vectors * static_cast<int64_t>(sizeof(float));
  Kv kv;
  kv.heads = static_cast<int32_t>(shape_.kv_heads);
  kv.d_k = static_cast<int32_t>(shape_.d_k);
  kv.d_v = static_cast<int32_t>(shape_.d_v);
  kv.page_size = shape_.page_size;
  kv.pages = shape_.pages;
  kv.k = side(base, k_bytes_, k_scale);
  kv.v = side(v, v_bytes_, v_scale);
  return kv;
}

}  // namespace fovea::app
