// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/bundle.h"

#include <algorithm>
#include <cstring>

namespace fovea::cuda {

namespace {

constexpr uint64_t kAlign = 16;  // bytes
constexpr uint64_t kMaxRows = 1 << 20;

struct BundleHeader {
  char magic[8] = {'F', 'O', 'V', 'E', 'A', 'B', 'N', 'D'};
  uint32_t format = 2;
  uint32_t row_bytes = sizeof(BundleRow);
  Hash128 source_digest;
  uint32_t nvrtc_major = 0;
  uint32_t nvrtc_minor = 0;
  char arch[16] = {};
  uint64_t count = 0;
  uint64_t file_bytes = 0;
  uint64_t names_bytes = 0;
  Hash128 checksum;  // of the header with this field zero, then of the index and the names
};
static_assert(sizeof(BundleHeader) == 96);

Hash128 checksum_of(BundleHeader header, const std::vector<BundleRow>& rows, const std::string& names) {
  header.checksum = {};
  Hasher hasher;
  hasher.bytes(&header, sizeof header);
  hasher.bytes(rows.data(), rows.size() * sizeof(BundleRow));
  hasher.bytes(names.data(), names.size());
  return hasher.finish();
}

uint64_t aligned(uint64_t offset) {
  return (offset + kAlign - 1) / kAlign * kAlign;
}

Status refused(const std::string& path, const std::string& why) {
  return {FOVEA_IO, path + ": " + why};
}

std::string arch_of(const BundleHeader& header) {
  return {header.arch, strnlen(header.arch, sizeof header.arch)};
}

Status check_purpose(const std::string& path, const BundleHeader& header, const Bundle::Expected& expected) {
  const std::string arch = arch_of(header);
  if (arch != name(expected.arch)) {
    return refused(path, "is for sm_" + arch + ": sm_" + name(expected.arch) + " is needed");
  }
  if (header.source_digest != expected.source_digest) {
    return refused(path, "was compiled from other kernel sources (digest " + hex(header.source_digest) +
                             ") than this library's (" + hex(expected.source_digest) + ")");
  }
  if (header.nvrtc_major > static_cast<uint32_t>(expected.max_major)) {
    return refused(path, "was compiled by NVRTC " + std::to_string(header.nvrtc_major) + "." +
                             std::to_string(header.nvrtc_minor) + ": the driver loads code of CUDA " +
                             std::to_string(expected.max_major) + " at most");
  }
  return {};
}

// Everything that the header alone shows of the file; `expected` may be null.
Status check_header(const std::string& path, const BundleHeader& header, uint64_t file_bytes,
                    const Bundle::Expected* expected) {
  const BundleHeader model;
  if (std::memcmp(header.magic, model.magic, sizeof model.magic) != 0) return refused(path, "is not a kernel bundle");
  if (header.format != model.format || header.row_bytes != model.row_bytes) {
    return refused(path, "has bundle format " + std::to_string(header.format) + ": this library reads " +
                             std::to_string(model.format));
  }
  if (expected != nullptr) FOVEA_TRY(check_purpose(path, header, *expected));
  if (header.file_bytes != file_bytes) {
    return refused(
        path, "has " + std::to_string(file_bytes) + " bytes: its header says " + std::to_string(header.file_bytes));
  }
  const uint64_t room = file_bytes - sizeof header;
  if (header.count > kMaxRows || header.count > room / sizeof(BundleRow) ||
      header.names_bytes > room - header.count * sizeof(BundleRow)) {
    return refused(path, "is damaged: " + std::to_string(header.count) + " rows do not fit into it");
  }
  return {};
}

bool rows_are_sound(const std::vector<BundleRow>& rows, uint64_t names_bytes, uint64_t file_bytes) {
  const uint64_t first = sizeof(BundleHeader) + rows.size() * sizeof(BundleRow) + names_bytes;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BundleRow& row = rows[i];
    if (i > 0 && !(rows[i - 1].key < row.key)) return false;
    if (row.offset < first || row.offset > file_bytes || row.bytes > file_bytes - row.offset) return false;
  }
  return true;
}

}  // namespace

std::string Bundle::file_name(const CudaArch& arch) {
  return "fovea-sm_" + name(arch) + ".bundle";
}

Status Bundle::open(const std::string& path, const Expected& expected, std::unique_ptr<Bundle>& out) {
  return load(path, &expected, out);
}

Status Bundle::inspect(const std::string& path, std::unique_ptr<Bundle>& out) {
  return load(path, nullptr, out);
}

Status Bundle::load(const std::string& path, const Expected* expected, std::unique_ptr<Bundle>& out) {
  auto bundle = std::make_unique<Bundle>();
  uint64_t file_bytes = 0;
  FOVEA_TRY(open_for_reading(path, bundle->file_, file_bytes));
  BundleHeader header;
  if (file_bytes < sizeof header) return refused(path, "is not a kernel bundle: it is shorter than a header");
  FOVEA_TRY(read_at(bundle->file_, path, 0, sizeof header, &header));
  FOVEA_TRY(check_header(path, header, file_bytes, expected));
  bundle->rows_.resize(header.count);
  FOVEA_TRY(read_at(bundle->file_, path, sizeof header, header.count * sizeof(BundleRow), bundle->rows_.data()));
  std::string names(header.names_bytes, '\0');
  const uint64_t names_at = sizeof header + header.count * sizeof(BundleRow);
  FOVEA_TRY(read_at(bundle->file_, path, names_at, names.size(), names.data()));
  if (header.checksum != checksum_of(header, bundle->rows_, names) ||
      !rows_are_sound(bundle->rows_, header.names_bytes, file_bytes)) {
    return refused(path, "is damaged: the checksum of its index is wrong");
  }
  bundle->path_ = path;
  bundle->arch_ = arch_of(header);
  bundle->source_digest_ = header.source_digest;
  for (size_t at = 0, end = 0; (end = names.find('\n', at)) != std::string::npos; at = end + 1) {
    bundle->names_.push_back(names.substr(at, end - at));
  }
  bundle->names_.resize(bundle->rows_.size());
  bundle->version_ = {static_cast<int>(header.nvrtc_major), static_cast<int>(header.nvrtc_minor)};
  out = std::move(bundle);
  return {};
}

const BundleRow* Bundle::find(const Hash128& key) const {
  const auto found = std::lower_bound(rows_.begin(), rows_.end(), key,
                                      [](const BundleRow& row, const Hash128& wanted) { return row.key < wanted; });
  return found != rows_.end() && found->key == key ? &*found : nullptr;
}

Status Bundle::read(const Hash128& key, std::string& cubin) const {
  const BundleRow* row = find(key);
  if (row == nullptr) return refused(path_, "has no kernel " + hex(key));
  std::string data(row->bytes, '\0');
  FOVEA_TRY(read_at(file_, path_, row->offset, row->bytes, data.data()));
  if (hash_bytes(data.data(), data.size()) != row->checksum) {
    return refused(path_, "is damaged: the checksum of kernel " + hex(key) + " is wrong");
  }
  cubin = std::move(data);
  return {};
}

std::string bundle_bytes(const Bundle::Expected& what, const NvrtcVersion& version, std::vector<BundleKernel> kernels) {
  std::sort(kernels.begin(), kernels.end(), [](const BundleKernel& a, const BundleKernel& b) { return a.key < b.key; });
  BundleHeader header;
  header.source_digest = what.source_digest;
  header.nvrtc_major = static_cast<uint32_t>(version.major);
  header.nvrtc_minor = static_cast<uint32_t>(version.minor);
  const std::string arch = name(what.arch);
  arch.copy(header.arch, sizeof header.arch - 1);
  header.count = kernels.size();

  std::string names;
  for (const BundleKernel& kernel : kernels) names += kernel.name + "\n";
  header.names_bytes = names.size();

  std::vector<BundleRow> rows;
  const uint64_t names_at = sizeof header + kernels.size() * sizeof(BundleRow);
  uint64_t offset = names_at + names.size();
  for (const BundleKernel& kernel : kernels) {
    offset = aligned(offset);
    rows.push_back({kernel.key, offset, kernel.cubin.size(), hash_bytes(kernel.cubin.data(), kernel.cubin.size())});
    offset += kernel.cubin.size();
  }
  header.file_bytes = offset;
  header.checksum = checksum_of(header, rows, names);

  std::string file(header.file_bytes, '\0');
  std::memcpy(file.data(), &header, sizeof header);
  names.copy(file.data() + names_at, names.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(file.data() + sizeof header + i * sizeof(BundleRow), &rows[i], sizeof(BundleRow));
    kernels[i].cubin.copy(file.data() + rows[i].offset, rows[i].bytes);
  }
  return file;
}

}  // namespace fovea::cuda
