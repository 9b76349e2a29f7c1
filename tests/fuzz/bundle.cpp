// SPDX-License-Identifier: Apache-2.0
// Compiled kernels from a file that anybody may have written: as a bundle, as an entry of the disk cache, and as the
// ELF file inside them.
#include "backend/cuda/bundle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "backend/cuda/cubin.h"
#include "backend/cuda/disk_cache.h"
#include "fuzz/target.h"

namespace fovea::fuzz {
namespace {

using namespace fovea::cuda;

constexpr size_t kBundleHeader = 96, kEntryHeader = 64, kChecksum = sizeof(Hash128);  // bytes
constexpr Hash128 kKey = {0x1234, 0x5678};
constexpr NvrtcVersion kVersion = {12, 9};

// A file in memory, which has a path while it is open.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes data) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    demand(file_.is_open(), "a file in memory can be made");
    demand(write(file_.get(), data.data(), data.size()) == static_cast<ssize_t>(data.size()), "and written");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  File file_;
};

void read_as_cubin(const std::string& cubin) {
  Resources resources;
  const Status status = read_resources(cubin, "kernel", {.number = 90}, resources);
  demand(status.ok() || !status.message().empty(), "a refusal has a reason");
}

void read_as_bundle(Bytes data) {
  const MemoryFile file(data);
  std::unique_ptr<Bundle> bundle;
  const Status status = Bundle::inspect(file.path(), bundle);
  demand(status.ok() == (bundle != nullptr), "a bundle or a reason");
  if (!status.ok()) return demand(!status.message().empty(), "a refusal has a reason");
  demand(bundle->rows().size() == bundle->names().size(), "each kernel has a name");
  for (const BundleRow& row : bundle->rows()) {
    std::string cubin;
    demand(bundle->contains(row.key), "rows are found by their keys");
    if (bundle->read(row.key, cubin).ok()) read_as_cubin(cubin);
  }
  std::unique_ptr<Bundle> wanted;
  demand(!Bundle::open(file.path(), {.source_digest = {1, 2}, .arch = {.number = 90}, .max_major = 12}, wanted).ok() ||
             bundle->source_digest() == Hash128{1, 2},
         "kernels of other sources are refused");
}

// A cache of one entry, whose file is replaced by the input.
class OneEntry {
 public:
  OneEntry() {
    std::string name = (std::filesystem::temp_directory_path() / "fovea-fuzz-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    cache_ = std::make_unique<DiskCache>(folder_);
    std::string cubin;
    bool compiled = false;
    const auto compile = [](std::string& out) { return out = "code", Status(); };
    demand(cache_->find_or_make(kKey, kVersion, compile, cubin, compiled).ok() && compiled, "an entry can be made");
    for (const auto& file : std::filesystem::directory_iterator(folder_)) path_ = file.path();
  }
  ~OneEntry() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  OneEntry(const OneEntry&) = delete;
  OneEntry& operator=(const OneEntry&) = delete;

  void read(Bytes data) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    DiskCache::Entry exact, any;
    const bool found = cache_->find(kKey, kVersion, 12, exact);
    demand(cache_->find(kKey, {}, 12, any) == found, "an entry is found by its version and without");
    if (!found) return;
    demand(exact.cubin == any.cubin && exact.cubin.size() + kEntryHeader == data.size(), "an entry is all of its file");
    read_as_cubin(exact.cubin);
  }

 private:
  std::string folder_;
  std::filesystem::path path_;
  std::unique_ptr<DiskCache> cache_;
};

void run(Bytes data) {
  static const OneEntry cache;
  read_as_cubin(std::string(reinterpret_cast<const char*>(data.data()), data.size()));
  read_as_bundle(data);
  cache.read(data);
}

template <class T>
T get(const uint8_t* data, size_t at) {
  T value{};
  std::memcpy(&value, data + at, sizeof value);
  return value;
}

// Sizes and checksums put right, so that what lies behind them is reached.
void seal_bundle(uint8_t* data, uint64_t size) {
  std::memcpy(data + 64, &size, sizeof size);
  const uint64_t rows = get<uint64_t>(data, 56), names = get<uint64_t>(data, 72), room = size - kBundleHeader;
  if (rows > room / sizeof(BundleRow) || names > room - rows * sizeof(BundleRow)) return;
  uint64_t at = kBundleHeader;
  for (uint64_t i = 0; i < rows; ++i, at += sizeof(BundleRow)) {
    const auto row = get<BundleRow>(data, at);
    if (row.offset > size || row.bytes > size - row.offset) continue;
    const Hash128 sum = hash_bytes(data + row.offset, row.bytes);
    std::memcpy(data + at + offsetof(BundleRow, checksum), &sum, sizeof sum);
  }
  std::memset(data + kBundleHeader - kChecksum, 0, kChecksum);
  const Hash128 sum = hash_bytes(data, kBundleHeader + rows * sizeof(BundleRow) + names);
  std::memcpy(data + kBundleHeader - kChecksum, &sum, sizeof sum);
}

void seal_entry(uint8_t* data, uint64_t size) {
  const uint64_t bytes = size - kEntryHeader;
  std::memcpy(data + 24, &kKey, sizeof kKey);
  std::memcpy(data + 40, &bytes, sizeof bytes);
  std::memset(data + kEntryHeader - kChecksum, 0, kChecksum);
  const Hash128 sum = hash_bytes(data, size);
  std::memcpy(data + kEntryHeader - kChecksum, &sum, sizeof sum);
}

size_t mutate(uint8_t* data, size_t size, size_t, uint64_t) {
  const auto is = [&](const char* magic) { return std::memcmp(data, magic, 8) == 0; };
  if (size >= kBundleHeader && is("FOVEABND")) seal_bundle(data, size);
  if (size > kEntryHeader && is("FOVEAKRN")) seal_entry(data, size);
  return size;
}

const Register registered({"bundle", run, mutate});

}  // namespace
}  // namespace fovea::fuzz
