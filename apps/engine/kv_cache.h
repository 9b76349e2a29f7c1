// SPDX-License-Identifier: Apache-2.0
// The memory of a paged KV cache. One page of one layer is one record: K [kv heads, page_size, d_k], then V, then, for
// codecs with scales, an f32 scale per head and token for each. Records of a layer follow one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fovea/fovea.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::app {

// The codec of a name such as "bf16"; unknown: Error that lists the names the library knows.
int32_t parse_codec(std::string_view name);
std::string codec_names();  // "f32, f16, ..."

class KvCache {
 public:
  struct Shape {
    int32_t codec = FOVEA_CODEC_F16;
    int64_t layers = 0, kv_heads = 0, d_k = 0, d_v = 0;
    int32_t page_size = 16;  // tokens
    int64_t pages = 0;
  };
  explicit KvCache(const Shape& shape);

  const Shape& shape() const { return shape_; }
  Kv layer(int64_t index) const;  // streams and sizes; page table and lengths are the caller's
  int64_t bytes() const { return shape_.layers * shape_.pages * record_bytes_; }
  double bytes_per_token() const;

 private:
  Shape shape_;
  int64_t k_bytes_ = 0, v_bytes_ = 0;  // of one vector of one head
  bool scaled_ = false;
  int64_t record_bytes_ = 0;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

}  // namespace fovea::app
