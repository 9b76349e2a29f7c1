// SPDX-License-Identifier: Apache-2.0
// NVRTC, CUDA's run-time compiler: from a text to a cubin, without a device, without a toolkit's headers.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backend/cuda/kernel_source.h"
#include "base/status.h"
#include "plan/cuda_arch.h"

namespace fovea::cuda {

struct NvrtcApi;

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  bool operator==(const NvrtcVersion&) const = default;
  bool operator<(const NvrtcVersion& other) const {
    return std::tie(major, minor) < std::tie(other.major, other.minor);
  }
};
std::string name(const NvrtcVersion& version);  // "13.0"

struct Compiled {
  std::string cubin;
  std::string log;  // warnings, and what ptxas says of spills
};

class Nvrtc {
 public:
  // `where`: a file, or a folder that holds libnvrtc (a toolkit, its lib64, site-packages); empty: what the loader
  // finds, then /usr/local/cuda. Major versions above max_major are not taken: an older driver cannot load their code.
  static Status open(const std::string& where, int max_major, std::unique_ptr<Nvrtc>& out);
  ~Nvrtc();

  const NvrtcVersion& version() const { return version_; }
  const std::string& path() const { return path_; }
  bool supports(const CudaArch& arch) const;
  // Thread-safe. An error holds the compiler's log.
  Status compile(const KernelSource& source, Compiled& out) const;

  static constexpr int kNewestMajor = 13;

 private:
  Nvrtc();

  std::unique_ptr<NvrtcApi> api_;
  std::string path_;
  NvrtcVersion version_;
  std::vector<int> archs_;  // 10 * major + minor
};

}  // namespace fovea::cuda
