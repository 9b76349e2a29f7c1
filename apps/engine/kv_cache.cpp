// SPDX-License-Identifier: Apache-2.0
#include "kv_cache.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>

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

struct ScaleKind {
  std::string_view name;
  int32_t id;
};
constexpr ScaleKind kScaleKinds[] = {
#define FOVEA_SCALE_KIND(name, NAME, value, text) {#name, value},
#include <fovea/scale_kinds.def>
#undef FOVEA_SCALE_KIND
};

bool needs_scale(const Codec& codec) {
  return codec.dtype == FOVEA_E4M3;
}

int64_t scales_of_vector(const KvFormat& format, int64_t dims) {
  if (format.scale_kind == FOVEA_SCALE_TOKEN_HEAD) return 1;
  return format.scale_kind == FOVEA_SCALE_GROUP ? (dims + format.scale_group - 1) / format.scale_group : 0;
}

// The dims of "group32"; 0: not such a name.
int32_t group_of(std::string_view text) {
  constexpr std::string_view kGroup = "group";
  if (!text.starts_with(kGroup)) return 0;
  text.remove_prefix(kGroup.size());
  int32_t dims = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dims);
  return error == std::errc() && end == text.data() + text.size() && dims > 0 ? dims : 0;
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

std::string KvFormat::name() const {
  std::string text(find_codec(codec).name);
  for (const ScaleKind& kind : kScaleKinds) {
    if (kind.id == scale_kind && scale_kind != FOVEA_SCALE_NONE) text += ":" + std::string(kind.name);
  }
  return scale_kind == FOVEA_SCALE_GROUP ? text + std::to_string(scale_group) : text;
}

KvFormat format_of(int32_t codec) {
  return {.codec = codec, .scale_kind = needs_scale(find_codec(codec)) ? FOVEA_SCALE_TOKEN_HEAD : FOVEA_SCALE_NONE};
}

KvFormat parse_kv_format(std::string_view name) {
  const size_t colon = name.find(':');
  for (const Codec& codec : kCodecs) {
    if (codec.name != name.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return format_of(codec.id);
    if (!needs_scale(codec)) break;
    const std::string_view scale = name.substr(colon + 1);
    if (const int32_t dims = group_of(scale); dims > 0) return {codec.id, FOVEA_SCALE_GROUP, dims};
    for (const ScaleKind& kind : kScaleKinds) {
      if (kind.id == FOVEA_SCALE_NONE || kind.id == FOVEA_SCALE_GROUP || kind.name != scale) continue;
      return {.codec = codec.id, .scale_kind = kind.id};
    }
  }
  throw Error("KV format '" + std::string(name) + "' does not exist, allowed are " + kv_format_names());
}

std::string kv_format_names() {
  std::string names = codec_names();
  for (const Codec& codec : kCodecs) {
    if (!needs_scale(codec)) continue;
    for (const ScaleKind& kind : kScaleKinds) {
      if (kind.id == FOVEA_SCALE_NONE) continue;
      names += ", " + std::string(codec.name) + ":" + std::string(kind.name);
      if (kind.id == FOVEA_SCALE_GROUP) names += "N (N dims)";
    }
  }
  return names;
}

KvCache::KvCache(const Shape& shape, KvScales scales) : shape_(shape), memory_(nullptr, std::free) {
  const Codec& codec = find_codec(shape.format.codec);
  const int64_t vectors = shape.kv_heads * shape.page_size;
  int64_t at = 0;
  const auto place = [&](int64_t* start, int64_t bytes) {
    *start = at;
    at += bytes;
  };
  const auto fill = [&](Side* side, int64_t dims) {
    side->dims = dims;
    side->bytes = fovea_dtype_bytes(codec.dtype, dims);
    side->scales = scales_of_vector(shape.format, dims);
    place(&side->data, aligned(vectors * side->bytes));
  };
  fill(&k_, shape.d_k);
  fill(&v_, shape.d_v);
  for (Side* side : {&k_, &v_}) place(&side->scale, vectors * side->scales * static_cast<int64_t>(sizeof(float)));
  record_bytes_ = aligned(at);
  give_scales(std::move(scales));
  // Not touched here: a page costs memory from its first token on.
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(bytes()))));
  if (memory_ == nullptr) throw Error("no memory for a KV cache of " + std::to_string(bytes()) + " bytes");
}

void KvCache::give_scales(KvScales scales) {
  const size_t wanted = shape_.format.has_given_scales() ? static_cast<size_t>(shape_.layers * shape_.kv_heads) : 0;
  if (scales.k.size() != wanted || scales.v.size() != wanted) {
    throw Error("KV format " + shape_.format.name() + " takes " + std::to_string(wanted) +
                " scales of K and of V, given are " + std::to_string(scales.k.size()) + " and " +
                std::to_string(scales.v.size()));
  }
  k_.given = std::move(scales.k);
  v_.given = std::move(scales.v);
  if (shape_.format.scale_kind != FOVEA_SCALE_TENSOR) return;
  for (Side* side : {&k_, &v_}) {
    std::vector<float> largest;
    for (auto layer = side->given.begin(); layer != side->given.end(); layer += shape_.kv_heads) {
      largest.push_back(*std::max_element(layer, layer + shape_.kv_heads));
    }
    side->given = std::move(largest);
  }
}

double KvCache::bytes_per_token() const {
  return static_cast<double>(shape_.layers * record_bytes_) / shape_.page_size;
}

KvSide KvCache::side_of(const Side& side, int64_t layer) const {
  constexpr auto kScaleBytes = static_cast<int64_t>(sizeof(float));
  std::byte* base = memory_.get() + layer * shape_.pages * record_bytes_;
  const auto stream = [&](std::byte* start, int64_t vector_bytes) {
    return KvStream{start, record_bytes_, vector_bytes, vector_bytes * shape_.page_size};
  };
  KvSide out;
  out.codec = shape_.format.codec;
  out.data = stream(base + side.data, side.bytes);
  out.scale_kind = shape_.format.scale_kind;
  out.scale_group = shape_.format.scale_group;
  if (out.scale_kind != FOVEA_SCALE_NONE) out.scale_dtype = FOVEA_F32;
  if (side.scales > 0) out.scale = stream(base + side.scale, side.scales * kScaleBytes);
  if (!side.given.empty()) {
    const bool per_head = out.scale_kind == FOVEA_SCALE_HEAD;
    const float* scale = side.given.data() + layer * (per_head ? shape_.kv_heads : 1);
    out.scale = {const_cast<float*>(scale), 0, 0, per_head ? kScaleBytes : 0};
  }
  return out;
}

Kv KvCache::layer(int64_t index) const {
  Kv kv;
  kv.heads = static_cast<int32_t>(shape_.kv_heads);
  kv.d_k = static_cast<int32_t>(shape_.d_k);
  kv.d_v = static_cast<int32_t>(shape_.d_v);
  kv.page_size = shape_.page_size;
  kv.pages = shape_.pages;
  kv.k = side_of(k_, index);
  kv.v = side_of(v_, index);
  return kv;
}

KvScales KvCache::peaks(int64_t tokens) const {
  if (shape_.format.codec != FOVEA_CODEC_F32)
    throw Error("peaks are taken of an f32 cache, not of " + shape_.format.name());
  KvScales peaks;
  const auto add = [&](const Side& side, std::vector<float>* out) {
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      for (int64_t head = 0; head < shape_.kv_heads; ++head) {
        float peak = 0;
        for (int64_t t = 0; t < tokens; ++t) {
          const int64_t record = layer * shape_.pages + t / shape_.page_size;
          const int64_t vector = head * shape_.page_size + t % shape_.page_size;
          const auto* x =
              reinterpret_cast<const float*>(memory_.get() + record * record_bytes_ + side.data + vector * side.bytes);
          for (int64_t i = 0; i < side.dims; ++i) peak = std::max(peak, std::abs(x[i]));
        }
        out->push_back(peak);
      }
    }
  };
  add(k_, &peaks.k);
  add(v_, &peaks.v);
  return peaks;
}

}  // namespace fovea::app
