// SPDX-License-Identifier: Apache-2.0
// Writes GGUF images for the tests, well-formed or with one chosen fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::app::test {

class GgufWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;
    std::string data;
  };

  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<std::pair<std::string, std::string>> pairs;  // key, encoded type and value
  std::vector<Tensor> tensors;
  std::function<void(size_t index, uint64_t* offset)> place;  // changes a tensor's offset

  template <typename T>
  static std::string raw(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string text(std::string_view value) { return raw<uint64_t>(value.size()) + std::string(value); }

  GgufWriter& u32(const std::string& key, uint32_t value) { return add(key, raw<uint32_t>(4) + raw(value)); }
  GgufWriter& i32(const std::string& key, int32_t value) { return add(key, raw<uint32_t>(5) + raw(value)); }
  GgufWriter& f32(const std::string& key, float value) { return add(key, raw<uint32_t>(6) + raw(value)); }
  GgufWriter& boolean(const std::string& key, bool value) { return add(key, raw<uint32_t>(7) + raw<uint8_t>(value)); }
  GgufWriter& string(const std::string& key, std::string_view value) {
    return add(key, raw<uint32_t>(8) + text(value));
  }
  GgufWriter& strings(const std::string& key, const std::vector<std::string>& values) {
    std::string body = raw<uint32_t>(9) + raw<uint32_t>(8) + raw<uint64_t>(values.size());
    for (const std::string& value : values) body += text(value);
    return add(key, body);
  }
  GgufWriter& ints(const std::string& key, const std::vector<int32_t>& values) {
    std::string body = raw<uint32_t>(9) + raw<uint32_t>(5) + raw<uint64_t>(values.size());
    for (const int32_t value : values) body += raw(value);
    return add(key, body);
  }
  GgufWriter& add(const std::string& key, std::string encoded) {
    pairs.emplace_back(key, std::move(encoded));
    return *this;
  }
  GgufWriter& tensor(std::string name, std::vector<uint64_t> dims, uint32_t type, std::string data) {
    tensors.push_back({std::move(name), std::move(dims), type, std::move(data)});
    return *this;
  }

  // The last tensor is not padded, so that every shorter prefix of the image is incomplete.
  std::string image() const {
    std::string out = "GGUF" + raw(version) + raw<uint64_t>(tensors.size()) + raw<uint64_t>(pairs.size());
    for (const auto& [key, encoded] : pairs) out += text(key) + encoded;
    std::string data;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& t = tensors[i];
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      uint64_t offset = data.size();
      if (place) place(i, &offset);
      out += text(t.name) + raw<uint32_t>(static_cast<uint32_t>(t.dims.size()));
      for (const uint64_t dim : t.dims) out += raw(dim);
      out += raw(t.type) + raw(offset);
      data += t.data;
    }
    if (!tensors.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }

  static std::vector<std::byte> bytes(std::string_view image) {
    std::vector<std::byte> out(image.size());
    if (!image.empty()) std::memcpy(out.data(), image.data(), image.size());
    return out;
  }
};

}  // namespace fovea::app::test
