// SPDX-License-Identifier: Apache-2.0
// Kernels compiled ahead of time for one architecture, in one file that may stand anywhere:
//   header     magic, format, digest of the sources, NVRTC version, architecture, count, size of the file, checksum
//   index      count rows (key, offset, bytes, checksum), sorted by key
//   names      of the kernels, in the same order, each with a newline: for people
//   cubins     each at a multiple of 16 bytes
// A file that is damaged or made for something else is refused with the reason. Rows are read when they are asked for,
// not mapped: a file that is replaced or cut short while in use is an error and never a crash.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/files.h"
#include "backend/cuda/nvrtc.h"
#include "base/hash.h"
#include "plan/cuda_arch.h"

namespace fovea::cuda {

struct BundleRow {
  Hash128 key;
  uint64_t offset = 0;  // from the start of the file, bytes
  uint64_t bytes = 0;
  Hash128 checksum;
};
static_assert(sizeof(BundleRow) == 48);

class Bundle {
 public:
  struct Expected {
    Hash128 source_digest = {};
    CudaArch arch = {};
    int max_major = 0;  // of NVRTC, by what the driver can load
  };

  static std::string file_name(const CudaArch& arch);  // "fovea-sm_90a.bundle"
  static Status open(const std::string& path, const Expected& expected, std::unique_ptr<Bundle>& out);
  // Whatever it was made for, to be looked at.
  static Status inspect(const std::string& path, std::unique_ptr<Bundle>& out);

  bool contains(const Hash128& key) const { return find(key) != nullptr; }
  // IO where the row is damaged or not there.
  Status read(const Hash128& key, std::string& cubin) const;
  size_t count() const { return rows_.size(); }
  const NvrtcVersion& version() const { return version_; }
  const std::string& path() const { return path_; }
  const std::string& arch() const { return arch_; }
  const Hash128& source_digest() const { return source_digest_; }
  const std::vector<BundleRow>& rows() const { return rows_; }
  const std::vector<std::string>& names() const { return names_; }  // of rows()

 private:
  static Status load(const std::string& path, const Expected* expected, std::unique_ptr<Bundle>& out);
  const BundleRow* find(const Hash128& key) const;

  std::string path_;
  File file_;
  NvrtcVersion version_;
  std::string arch_;
  Hash128 source_digest_;
  std::vector<BundleRow> rows_;
  std::vector<std::string> names_;
};

struct BundleKernel {
  Hash128 key;
  std::string cubin;
  std::string name = {};
};

// The whole file as it is written, for publish_file.
std::string bundle_bytes(const Bundle::Expected& what, const NvrtcVersion& version, std::vector<BundleKernel> kernels);

}  // namespace fovea::cuda
