// SPDX-License-Identifier: Apache-2.0
#include "kv_cache.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "error.h"

namespace fovea::app {
namespace {

constexpr int64_t kAlignment = 64;       // bytes; a cache line
constexpr int64_t kPoolAlignment = 128;  // of the library's records

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

bool is_fp8(const Codec& codec) {
  return codec.id == FOVEA_CODEC_FP8;
}
bool is_float(const Codec& codec) {
  return !is_fp8(codec) && codec.dtype != FOVEA_U8;
}

int64_t scales_of_vector(const KvSideFormat& format, int64_t dims) {
  if (format.scale_kind == FOVEA_SCALE_TOKEN_HEAD) return 1;
  return format.scale_kind == FOVEA_SCALE_GROUP ? (dims + format.scale_group - 1) / format.scale_group : 0;
}

// Pairs with names of their own; what they cost a model: docs/benchmarks.md.
struct Preset {
  std::string_view name, k, v;
};
constexpr Preset kPresets[] = {{"turbo8", "fp8:head", "q4"}, {"turbo8i", "i8", "q4"}, {"turbo6", "q6", "q4"},
                               {"turbo4", "q4", "q4"},       {"turbo3", "q3", "q4"},  {"turbo3s", "q3", "q3"},
                               {"turbo2", "q2", "q2"}};

// The dims of "group32"; 0: not such a name.
int32_t group_of(std::string_view text) {
  constexpr std::string_view kGroup = "group";
  if (!text.starts_with(kGroup)) return 0;
  text.remove_prefix(kGroup.size());
  int32_t dims = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dims);
  return error == std::errc() && end == text.data() + text.size() && dims > 0 ? dims : 0;
}

int64_t aligned(int64_t bytes, int64_t to = kAlignment) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

std::string KvSideFormat::name() const {
  const Codec& c = find_codec(codec);
  std::string text(c.name);
  if (!is_fp8(c)) return text;
  for (const ScaleKind& kind : kScaleKinds) {
    if (kind.id == scale_kind && scale_kind != FOVEA_SCALE_NONE) text += ":" + std::string(kind.name);
  }
  return scale_kind == FOVEA_SCALE_GROUP ? text + std::to_string(scale_group) : text;
}

namespace {

KvSideFormat side_format(const Codec& codec) {
  return {.codec = codec.id, .scale_kind = is_float(codec) ? FOVEA_SCALE_NONE : FOVEA_SCALE_TOKEN_HEAD};
}

std::optional<KvSideFormat> parse_side(std::string_view name) {
  const size_t colon = name.find(':');
  for (const Codec& codec : kCodecs) {
    if (codec.name != name.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return side_format(codec);
    if (!is_fp8(codec)) break;
    const std::string_view scale = name.substr(colon + 1);
    if (const int32_t dims = group_of(scale); dims > 0) return KvSideFormat{codec.id, FOVEA_SCALE_GROUP, dims};
    for (const ScaleKind& kind : kScaleKinds) {
      if (kind.id == FOVEA_SCALE_NONE || kind.id == FOVEA_SCALE_GROUP || kind.name != scale) continue;
      return KvSideFormat{.codec = codec.id, .scale_kind = kind.id};
    }
  }
  return {};
}

}  // namespace

std::string KvFormat::name() const {
  for (const Preset& preset : kPresets) {
    if (k == parse_side(preset.k) && v == parse_side(preset.v)) return std::string(preset.name);
  }
  return k == v ? k.name() : k.name() + "/" + v.name();
}

KvFormat format_of(int32_t codec) {
  const KvSideFormat side = side_format(find_codec(codec));
  return {side, side};
}

KvFormat parse_kv_format(std::string_view name) {
  std::string_view k = name, v = name;
  if (const size_t slash = name.find('/'); slash != std::string_view::npos) {
    k = name.substr(0, slash);
    v = name.substr(slash + 1);
  }
  for (const Preset& preset : kPresets) {
    if (preset.name == name) k = preset.k, v = preset.v;
  }
  const std::optional<KvSideFormat> k_format = parse_side(k), v_format = parse_side(v);
  if (k_format && v_format) return {*k_format, *v_format};
  throw Error("KV format '" + std::string(name) + "' does not exist, allowed are " + kv_format_names());
}

std::string kv_format_names(bool with_given_scales) {
  std::string names;
  for (const Codec& codec : kCodecs) names += (names.empty() ? "" : ", ") + std::string(codec.name);
  for (const ScaleKind& kind : kScaleKinds) {
    const bool given = KvSideFormat{FOVEA_CODEC_FP8, kind.id}.has_given_scales();
    if (kind.id == FOVEA_SCALE_NONE || (given && !with_given_scales)) continue;
    names += ", fp8:" + std::string(kind.name);
    if (kind.id == FOVEA_SCALE_GROUP) names += "N (N dims)";
  }
  for (const Preset& preset : kPresets) {
    if (with_given_scales || !parse_side(preset.k)->has_given_scales()) names += ", " + std::string(preset.name);
  }
  return names + ", K/V of two that stand for one side";
}

KvCache::KvCache(const Shape& shape, KvScales scales) : shape_(shape), memory_(nullptr, std::free) {
  place_sides();
  give_scales(std::move(scales));
  // Not touched here: a page costs memory from its first token on.
  memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(kPoolAlignment, static_cast<size_t>(aligned(bytes(), kPoolAlignment)))));
  if (memory_ == nullptr) throw Error("no memory for a KV cache of " + std::to_string(bytes()) + " bytes");
}

void KvCache::place_sides() {
  k_.dims = shape_.d_k;
  v_.dims = shape_.d_v;
  if (shape_.format.in_library_records()) {
    Kv kv = store();
    layer_bytes_ = lay_out_records(kv);
    record_bytes_ = shape_.pages > 0 ? layer_bytes_ / shape_.pages : 0;
    return;
  }
  const int64_t vectors = shape_.kv_heads * shape_.page_size;
  int64_t at = 0;
  const auto place = [&](int64_t* start, int64_t bytes) {
    *start = at;
    at += bytes;
  };
  const auto fill = [&](Side* side, const KvSideFormat& format) {
    side->bytes = fovea_dtype_bytes(find_codec(format.codec).dtype, side->dims);
    side->scales = scales_of_vector(format, side->dims);
    place(&side->data, aligned(vectors * side->bytes));
  };
  fill(&k_, shape_.format.k);
  fill(&v_, shape_.format.v);
  for (Side* side : {&k_, &v_}) place(&side->scale, vectors * side->scales * static_cast<int64_t>(sizeof(float)));
  record_bytes_ = aligned(at);
  layer_bytes_ = shape_.pages * record_bytes_;
}

void KvCache::give_scales(KvScales scales) {
  const KvFormat& format = shape_.format;
  const auto heads = static_cast<size_t>(shape_.layers * shape_.kv_heads);
  const size_t wanted_k = format.k.has_given_scales() ? heads : 0, wanted_v = format.v.has_given_scales() ? heads : 0;
  if (scales.k.size() != wanted_k || scales.v.size() != wanted_v) {
    throw Error("KV format " + format.name() + " takes " + std::to_string(wanted_k) + " scales of K and " +
                std::to_string(wanted_v) + " of V, given are " + std::to_string(scales.k.size()) + " and " +
                std::to_string(scales.v.size()));
  }
  const auto give = [&](Side& side, const KvSideFormat& of, std::vector<float> given) {
    side.given = std::move(given);
    if (of.scale_kind != FOVEA_SCALE_TENSOR) return;
    std::vector<float> largest;
    for (auto layer = side.given.begin(); layer != side.given.end(); layer += shape_.kv_heads) {
      largest.push_back(*std::max_element(layer, layer + shape_.kv_heads));
    }
    side.given = std::move(largest);
  };
  give(k_, format.k, std::move(scales.k));
  give(v_, format.v, std::move(scales.v));
}

double KvCache::bytes_per_token() const {
  return static_cast<double>(shape_.layers * record_bytes_) / shape_.page_size;
}

Kv KvCache::store() const {
  Kv kv;
  kv.heads = static_cast<int32_t>(shape_.kv_heads);
  kv.d_k = static_cast<int32_t>(shape_.d_k);
  kv.d_v = static_cast<int32_t>(shape_.d_v);
  kv.page_size = shape_.page_size;
  kv.pages = shape_.pages;
  const auto fill = [](KvSide& side, const KvSideFormat& format) {
    side.codec = format.codec;
    side.scale_kind = format.scale_kind;
    side.scale_group = format.scale_group;
    if (format.scale_kind != FOVEA_SCALE_NONE) side.scale_dtype = format.is_grid() ? FOVEA_F16 : FOVEA_F32;
  };
  fill(kv.k, shape_.format.k);
  fill(kv.v, shape_.format.v);
  return kv;
}

// Streams of a side whose fields are set.
void KvCache::point(const Side& side, int64_t layer, KvSide& out) const {
  constexpr auto kScaleBytes = static_cast<int64_t>(sizeof(float));
  if (!shape_.format.in_library_records()) {
    std::byte* base = memory_.get() + layer * layer_bytes_;
    const auto stream = [&](std::byte* start, int64_t vector_bytes) {
      return KvStream{start, record_bytes_, vector_bytes, vector_bytes * shape_.page_size};
    };
    out.data = stream(base + side.data, side.bytes);
    if (side.scales > 0) out.scale = stream(base + side.scale, side.scales * kScaleBytes);
  }
  if (side.given.empty()) return;
  const bool per_head = out.scale_kind == FOVEA_SCALE_HEAD;
  const float* scale = side.given.data() + layer * (per_head ? shape_.kv_heads : 1);
  out.scale = {const_cast<float*>(scale), 0, 0, per_head ? kScaleBytes : 0};
}

Kv KvCache::layer(int64_t index) const {
  Kv kv = store();
  point(k_, index, kv.k);
  point(v_, index, kv.v);
  if (shape_.format.in_library_records()) {
    lay_out_records(kv, memory_.get() + index * layer_bytes_);
  }
  return kv;
}

KvScales KvCache::peaks(int64_t tokens) const {
  if (shape_.format.k.codec != FOVEA_CODEC_F32 || shape_.format.v.codec != FOVEA_CODEC_F32)
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
