// SPDX-License-Identifier: Apache-2.0
// Reader of GGUF version 3 model files, little-endian. The file is mapped read-only; names, strings and tensor data are
// views into the mapping, so they live as long as the Gguf object. Everything is validated while opening: after that no
// view can leave the file. A malformed or truncated file throws Error, which names the file, the fault and the byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "error.h"

namespace fovea::app {

enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
std::string_view name_of(GgufType type);

// One way of storing tensor elements: `block` consecutive elements of a row take `bytes` bytes.
struct GgufTensorType {
  uint32_t id;
  std::string_view name;
  uint32_t block;
  uint32_t bytes;
};
const GgufTensorType* find_tensor_type(uint32_t id);  // null when unknown

struct GgufTensor {
  std::string_view name;
  const GgufTensorType* type = nullptr;
  uint32_t n_dims = 0;
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // dims[0] is the contiguous one: a matrix is [columns, rows]
  uint64_t bytes = 0;
  const std::byte* data = nullptr;
};

struct GgufArray {
  GgufType element{};
  uint64_t count = 0;
  const std::byte* data = nullptr;        // scalars, unaligned; null for strings and nested arrays
  std::vector<std::string_view> strings;  // filled when element is kString
};

struct GgufValue {
  GgufType type{};
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> value;
};

class Gguf {
 public:
  static Gguf open(const std::string& path);
  // Parses bytes owned by the caller, which must outlive the result. `name` stands for the file in messages.
  static Gguf parse(std::span<const std::byte> bytes, std::string name);

  Gguf(Gguf&& other) noexcept;
  Gguf& operator=(Gguf&& other) noexcept;
  ~Gguf();

  const std::string& name() const { return name_; }
  uint64_t file_bytes() const { return bytes_.size(); }
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;
  const GgufTensor& tensor(std::string_view name) const;  // missing: Error
  // Gives the memory of these bytes of the mapping back, in whole pages; whoever reads them again, reads the file.
  void forget(std::span<const std::byte> data) const;

  // Typed access to metadata. Integers of every width are taken where one is wanted. Without a default a missing key is
  // an Error; a key of another type always is.
  uint64_t get_uint(std::string_view key, std::optional<uint64_t> otherwise = {}) const;
  double get_float(std::string_view key, std::optional<double> otherwise = {}) const;
  bool get_bool(std::string_view key, std::optional<bool> otherwise = {}) const;
  std::string_view get_string(std::string_view key, std::optional<std::string_view> otherwise = {}) const;
  const std::vector<std::string_view>& get_strings(std::string_view key) const;
  std::vector<int64_t> get_ints(std::string_view key) const;

 private:
  Gguf() = default;
  void read();
  void check_placement(std::span<const uint64_t> offsets, uint64_t data_start);
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const;
  [[noreturn]] void missing(std::string_view key) const;

  std::string name_;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace fovea::app
