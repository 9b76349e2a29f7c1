// SPDX-License-Identifier: Apache-2.0
#include "gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "quoted.h"

namespace fovea::app {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

constexpr uint64_t kMaxNameBytes = 65535;  // the format's limit for keys
constexpr int kMaxArrayDepth = 4;

struct TypeRow {
  std::string_view name;
  uint32_t bytes;  // 0: not of fixed size
};
constexpr TypeRow kTypes[] = {{"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
                              {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};
constexpr uint32_t kTypeCount = std::size(kTypes);

constexpr GgufTensorType kTensorTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
};

// Reads forward through the file; every step is checked against what is left.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t position() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(file_ + ": " + message + " (at byte " + std::to_string(at_) + ")");
  }

  const std::byte* take(uint64_t count, std::string_view what) {
    if (count > left()) {
      fail("file ends inside " + std::string(what) + ": " + std::to_string(count) + " bytes wanted, " +
           std::to_string(left()) + " left");
    }
    const std::byte* start = bytes_.data() + at_;
    at_ += count;
    return start;
  }

  template <typename T>
  T scalar(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string_view string(std::string_view what, uint64_t limit) {
    const uint64_t length = scalar<uint64_t>(what);
    if (length > left() || length > limit) {
      fail(std::string(what) + " of " + std::to_string(length) + " bytes: " + std::to_string(left()) +
           " bytes left in the file" + (limit < UINT64_MAX ? ", limit " + std::to_string(limit) : ""));
    }
    return {reinterpret_cast<const char*>(take(length, what)), length};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  uint64_t at_ = 0;
};

GgufType read_type(Cursor& in, std::string_view key) {
  const uint32_t id = in.scalar<uint32_t>("the type of metadata " + quoted(key));
  if (id >= kTypeCount) {
    in.fail("metadata " + quoted(key) + " has unknown type " + std::to_string(id) + ", allowed are 0 to " +
            std::to_string(kTypeCount - 1));
  }
  return static_cast<GgufType>(id);
}

GgufArray read_array(Cursor& in, std::string_view key, int depth) {
  if (depth > kMaxArrayDepth) {
    in.fail("metadata " + quoted(key) + " nests arrays deeper than " + std::to_string(kMaxArrayDepth));
  }
  GgufArray array;
  array.element = read_type(in, key);
  const std::string what = "metadata " + quoted(key);
  array.count = in.scalar<uint64_t>("the length of " + what);
  const uint32_t fixed = kTypes[static_cast<uint32_t>(array.element)].bytes;
  const uint64_t least = fixed != 0 ? fixed : (array.element == GgufType::kString ? 8 : 12);
  if (array.count > in.left() / least) {
    in.fail("metadata " + quoted(key) + " claims " + std::to_string(array.count) + " array elements, but only " +
            std::to_string(in.left()) + " bytes are left in the file");
  }
  if (fixed != 0) {
    array.data = in.take(array.count * fixed, what);
  } else if (array.element == GgufType::kString) {
    array.strings.reserve(array.count);
    const std::string text = "a string of " + what;
    for (uint64_t i = 0; i < array.count; ++i) array.strings.push_back(in.string(text, UINT64_MAX));
  } else {
    for (uint64_t i = 0; i < array.count; ++i) read_array(in, key, depth + 1);
  }
  return array;
}

GgufValue read_value(Cursor& in, std::string_view key) {
  GgufValue out;
  out.type = read_type(in, key);
  const std::string what = "metadata " + quoted(key);
  switch (out.type) {
    case GgufType::kU8:
      out.value = uint64_t{in.scalar<uint8_t>(what)};
      break;
    case GgufType::kU16:
      out.value = uint64_t{in.scalar<uint16_t>(what)};
      break;
    case GgufType::kU32:
      out.value = uint64_t{in.scalar<uint32_t>(what)};
      break;
    case GgufType::kU64:
      out.value = in.scalar<uint64_t>(what);
      break;
    case GgufType::kI8:
      out.value = int64_t{in.scalar<int8_t>(what)};
      break;
    case GgufType::kI16:
      out.value = int64_t{in.scalar<int16_t>(what)};
      break;
    case GgufType::kI32:
      out.value = int64_t{in.scalar<int32_t>(what)};
      break;
    case GgufType::kI64:
      out.value = in.scalar<int64_t>(what);
      break;
    case GgufType::kF32:
      out.value = double{in.scalar<float>(what)};
      break;
    case GgufType::kF64:
      out.value = in.scalar<double>(what);
      break;
    case GgufType::kString:
      out.value = in.string("the string of " + what, UINT64_MAX);
      break;
    case GgufType::kArray:
      out.value = read_array(in, key, 1);
      break;
    case GgufType::kBool: {
      const uint8_t byte = in.scalar<uint8_t>(what);
      if (byte > 1) in.fail("metadata " + quoted(key) + " is a bool of value " + std::to_string(byte));
      out.value = byte == 1;
      break;
    }
  }
  return out;
}

// Fills everything but the data pointer; the byte size is computed here because only here overflow can be named.
GgufTensor read_tensor_info(Cursor& in, uint64_t* offset) {
  GgufTensor tensor;
  tensor.name = in.string("a tensor name", kMaxNameBytes);
  const std::string of = " of tensor " + quoted(tensor.name);
  tensor.n_dims = in.scalar<uint32_t>("the number of dimensions" + of);
  if (tensor.n_dims < 1 || tensor.n_dims > 4) {
    in.fail("tensor " + quoted(tensor.name) + " has " + std::to_string(tensor.n_dims) +
            " dimensions, allowed are 1 to 4");
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < tensor.n_dims; ++i) {
    tensor.dims[i] = in.scalar<uint64_t>("the dimensions" + of);
    if (tensor.dims[i] == 0) in.fail("tensor " + quoted(tensor.name) + " has a dimension of 0");
    if (__builtin_mul_overflow(elements, tensor.dims[i], &elements)) {
      in.fail("tensor " + quoted(tensor.name) + ": the product of its dimensions overflows");
    }
  }
  const uint32_t id = in.scalar<uint32_t>("the type" + of);
  tensor.type = find_tensor_type(id);
  if (tensor.type == nullptr) in.fail("tensor " + quoted(tensor.name) + " has unknown type " + std::to_string(id));
  if (tensor.dims[0] % tensor.type->block != 0) {
    in.fail("tensor " + quoted(tensor.name) + " has rows of " + std::to_string(tensor.dims[0]) + " elements, " +
            std::string(tensor.type->name) + " needs a multiple of " + std::to_string(tensor.type->block));
  }
  if (__builtin_mul_overflow(elements / tensor.type->block, uint64_t{tensor.type->bytes}, &tensor.bytes)) {
    in.fail("tensor " + quoted(tensor.name) + ": its size in bytes overflows");
  }
  *offset = in.scalar<uint64_t>("the offset" + of);
  return tensor;
}

void check_header(Cursor& in) {
  if (in.left() == 0) in.fail("the file is empty");
  if (std::memcmp(in.take(4, "the magic number"), "GGUF", 4) != 0) in.fail("not a GGUF file: wrong magic number");
  const uint32_t version = in.scalar<uint32_t>("the version");
  if (version != 0 && (version & 0xffffu) == 0) in.fail("big-endian GGUF file; only little-endian is read");
  if (version != 3) in.fail("GGUF version " + std::to_string(version) + "; only version 3 is read");
}

uint64_t read_count(Cursor& in, const char* what, uint64_t least_bytes) {
  const uint64_t count = in.scalar<uint64_t>(what);
  if (count > in.left() / least_bytes) {
    in.fail(std::string(what) + " is " + std::to_string(count) + ", but only " + std::to_string(in.left()) +
            " bytes are left in the file");
  }
  return count;
}

struct FileDescriptor {
  int fd;
  ~FileDescriptor() { ::close(fd); }
};

}  // namespace

std::string_view name_of(GgufType type) {
  return kTypes[static_cast<uint32_t>(type)].name;
}

const GgufTensorType* find_tensor_type(uint32_t id) {
  for (const GgufTensorType& type : kTensorTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

Gguf Gguf::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(path + ": cannot open: " + std::strerror(errno));
  const FileDescriptor closer{fd};
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw Error(path + ": cannot read its size: " + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw Error(path + ": not a regular file");
  Gguf file;
  file.name_ = path;
  if (status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) throw Error(path + ": cannot map: " + std::strerror(errno));
    file.bytes_ = {static_cast<const std::byte*>(base), size};
    file.mapped_ = true;
  }
  file.read();
  return file;
}

Gguf Gguf::parse(std::span<const std::byte> bytes, std::string name) {
  Gguf file;
  file.name_ = std::move(name);
  file.bytes_ = bytes;
  file.read();
  return file;
}

Gguf::Gguf(Gguf&& other) noexcept {
  *this = std::move(other);
}

Gguf& Gguf::operator=(Gguf&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(metadata_, other.metadata_);
  std::swap(tensors_, other.tensors_);
  std::swap(tensor_index_, other.tensor_index_);
  return *this;
}

Gguf::~Gguf() {
  if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void Gguf::forget(std::span<const std::byte> data) const {
  if (!mapped_) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(data.data()) + page - 1) / page * page;
  const auto last = reinterpret_cast<uintptr_t>(data.data() + data.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

void Gguf::read() {
  Cursor in(bytes_, name_);
  check_header(in);
  // Smallest records: a tensor is name length, dims count, one dim, type, offset; a pair is key length, type, one byte.
  const uint64_t n_tensors = read_count(in, "the number of tensors", 8 + 4 + 8 + 4 + 8);
  const uint64_t n_pairs = read_count(in, "the number of metadata pairs", 8 + 4 + 1);
  for (uint64_t i = 0; i < n_pairs; ++i) {
    const std::string_view key = in.string("a metadata key", kMaxNameBytes);
    if (metadata_.contains(key)) in.fail("metadata key " + quoted(key) + " occurs twice");
    metadata_.emplace(key, read_value(in, key));
  }
  if (const uint64_t parts = get_uint("split.count", 1); parts > 1) {
    throw Error(name_ + ": part " + std::to_string(get_uint("split.no", 0) + 1) + " of a model split into " +
                std::to_string(parts) + " files; join the parts into one file first");
  }
  const uint64_t alignment = get_uint("general.alignment", 32);
  if (alignment < 8 || !std::has_single_bit(alignment) || alignment > (uint64_t{1} << 30)) {
    throw Error(name_ + ": general.alignment is " + std::to_string(alignment) +
                ", allowed are powers of two from 8 to 2^30");
  }

  std::vector<uint64_t> offsets(n_tensors);
  tensors_.reserve(n_tensors);
  for (uint64_t i = 0; i < n_tensors; ++i) {
    tensors_.push_back(read_tensor_info(in, &offsets[i]));
    const GgufTensor& tensor = tensors_.back();
    if (!tensor_index_.emplace(tensor.name, i).second) in.fail("tensor " + quoted(tensor.name) + " occurs twice");
    if (offsets[i] % alignment != 0) {
      in.fail("tensor " + quoted(tensor.name) + " has offset " + std::to_string(offsets[i]) +
              ", which is no multiple of the alignment " + std::to_string(alignment));
    }
  }
  const uint64_t data_start = (in.position() + alignment - 1) / alignment * alignment;
  check_placement(offsets, data_start);
}

void Gguf::check_placement(std::span<const uint64_t> offsets, uint64_t data_start) {
  const uint64_t available = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
  std::vector<size_t> order(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    if (offsets[i] > available || tensor.bytes > available - offsets[i]) {
      throw Error(name_ + ": tensor " + quoted(tensor.name) + " of " + std::to_string(tensor.bytes) +
                  " bytes at offset " + std::to_string(offsets[i]) + " leaves the file, whose data section has " +
                  std::to_string(available) + " bytes (truncated download?)");
    }
    tensor.data = bytes_.data() + data_start + offsets[i];
    order[i] = i;
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = tensors_[order[i - 1]];
    if (offsets[order[i - 1]] + before.bytes > offsets[order[i]]) {
      throw Error(name_ + ": tensors " + quoted(before.name) + " and " + quoted(tensors_[order[i]].name) +
                  " overlap in the file");
    }
  }
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

const GgufTensor& Gguf::tensor(std::string_view name) const {
  const GgufTensor* found = find_tensor(name);
  if (found == nullptr) throw Error(name_ + ": tensor " + quoted(name) + " is missing");
  return *found;
}

void Gguf::wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const {
  std::string have(name_of(value.type));
  if (const auto* array = std::get_if<GgufArray>(&value.value)) have += " of " + std::string(name_of(array->element));
  throw Error(name_ + ": metadata " + quoted(key) + " is " + have + ", wanted " + std::string(wanted));
}

void Gguf::missing(std::string_view key) const {
  throw Error(name_ + ": metadata " + quoted(key) + " is missing");
}

uint64_t Gguf::get_uint(std::string_view key, std::optional<uint64_t> otherwise) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return otherwise ? *otherwise : (missing(key), 0);
  if (const auto* u = std::get_if<uint64_t>(&found->value)) return *u;
  if (const auto* i = std::get_if<int64_t>(&found->value)) {
    if (*i >= 0) return static_cast<uint64_t>(*i);
    throw Error(name_ + ": metadata " + quoted(key) + " is " + std::to_string(*i) + ", wanted 0 or more");
  }
  wrong_type(key, *found, "an integer");
}

double Gguf::get_float(std::string_view key, std::optional<double> otherwise) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return otherwise ? *otherwise : (missing(key), 0.0);
  if (const auto* value = std::get_if<double>(&found->value)) return *value;
  wrong_type(key, *found, "a float");
}

bool Gguf::get_bool(std::string_view key, std::optional<bool> otherwise) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return otherwise ? *otherwise : (missing(key), false);
  if (const auto* value = std::get_if<bool>(&found->value)) return *value;
  wrong_type(key, *found, "a bool");
}

std::string_view Gguf::get_string(std::string_view key, std::optional<std::string_view> otherwise) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return otherwise ? *otherwise : (missing(key), std::string_view());
  if (const auto* value = std::get_if<std::string_view>(&found->value)) return *value;
  wrong_type(key, *found, "a string");
}

const std::vector<std::string_view>& Gguf::get_strings(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) missing(key);
  const auto* array = std::get_if<GgufArray>(&found->value);
  if (array == nullptr || array->element != GgufType::kString) wrong_type(key, *found, "array of string");
  return array->strings;
}

std::vector<int64_t> Gguf::get_ints(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) missing(key);
  const auto* array = std::get_if<GgufArray>(&found->value);
  if (array == nullptr) wrong_type(key, *found, "array of integers");
  std::vector<int64_t> out(array->count);
  const auto widen = [&]<typename T>(T) {
    for (uint64_t i = 0; i < array->count; ++i) {
      T element;
      std::memcpy(&element, array->data + i * sizeof(T), sizeof(T));
      out[i] = static_cast<int64_t>(element);
    }
  };
  switch (array->element) {
    case GgufType::kU8:
      widen(uint8_t{});
      break;
    case GgufType::kI8:
      widen(int8_t{});
      break;
    case GgufType::kU16:
      widen(uint16_t{});
      break;
    case GgufType::kI16:
      widen(int16_t{});
      break;
    case GgufType::kU32:
      widen(uint32_t{});
      break;
    case GgufType::kI32:
      widen(int32_t{});
      break;
    case GgufType::kU64:
      widen(uint64_t{});
      break;
    case GgufType::kI64:
      widen(int64_t{});
      break;
    default:
      wrong_type(key, *found, "array of integers");
  }
  return out;
}

}  // namespace fovea::app
