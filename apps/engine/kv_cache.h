// SPDX-License-Identifier: Apache-2.0
// The memory of a paged KV cache. One page of one layer is one record: K [kv heads, page_size, d_k], then V, then the
// f32 scales that are computed when a token is stored: [kv heads, page_size, scales of a vector] of K, then of V.
// Records of a layer follow one another. With codes on a side they are those of the library, one for each kv head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fovea/fovea.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::app {

// A codec and, where it needs scales, what one of them covers. Names: "f16"; "fp8:head", "fp8:group32" (a scale for
// each 32 dims); "fp8" alone is fp8:token_head, "q4" too has a scale of each token and head.
struct KvSideFormat {
  int32_t codec = FOVEA_CODEC_F16;
  int32_t scale_kind = FOVEA_SCALE_NONE;
  int32_t scale_group = 0;  // dims of a scale of kind group

  std::string name() const;
  bool is_grid() const { return codec >= FOVEA_CODEC_I8 && codec <= FOVEA_CODEC_Q2; }
  // Scales of the kinds tensor and head do not come from the vectors that are stored: the owner of the cache gives
  // them.
  bool has_given_scales() const { return scale_kind == FOVEA_SCALE_TENSOR || scale_kind == FOVEA_SCALE_HEAD; }
  bool operator==(const KvSideFormat&) const = default;
};

// How K and V are stored. Names: of one side for both, "q6/q4" for K and V, or a preset: "turbo4".
struct KvFormat {
  KvSideFormat k, v;

  std::string name() const;
  bool has_given_scales() const { return k.has_given_scales() || v.has_given_scales(); }
  bool in_library_records() const { return k.is_grid() || v.is_grid(); }
};
KvFormat parse_kv_format(std::string_view name);  // unknown: Error that lists the names
std::string kv_format_names(bool with_given_scales = true);
KvFormat format_of(int32_t codec);  // scales, where it needs them, are computed for each token and head

// One value for each layer and head, [layers, kv heads]: scales, or the largest magnitudes they are made of.
struct KvScales {
  std::vector<float> k, v;
};

class KvCache {
 public:
  struct Shape {
    KvFormat format;
    int64_t layers = 0, kv_heads = 0, d_k = 0, d_v = 0;
    int32_t page_size = 16;  // tokens
    int64_t pages = 0;
  };
  // `scales` for the formats with given ones; of kind tensor, a layer takes the largest of its heads.
  explicit KvCache(const Shape& shape, KvScales scales = {});

  const Shape& shape() const { return shape_; }
  Kv layer(int64_t index) const;  // streams and sizes; page table and lengths are the caller's
  int64_t bytes() const { return shape_.layers * layer_bytes_; }
  double bytes_per_token() const;

  // Of an f32 cache: the largest magnitudes of K and V in its first pages, which hold `tokens` tokens.
  KvScales peaks(int64_t tokens) const;

 private:
  struct Side {
    int64_t dims = 0;
    int64_t bytes = 0;            // of one vector of one head
    int64_t scales = 0;           // stored with it
    int64_t data = 0, scale = 0;  // where they start in a record, bytes
    std::vector<float> given;     // [layers, kv heads] or, of kind tensor, [layers]
  };
  void place_sides();
  void give_scales(KvScales scales);
  void point(const Side& side, int64_t layer, KvSide& out) const;
  Kv store() const;  // dims, sizes, codecs and scale kinds

  Shape shape_;
  Side k_, v_;
  int64_t record_bytes_ = 0;  // of a page of a layer
  int64_t layer_bytes_ = 0;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

}  // namespace fovea::app
