// SPDX-License-Identifier: Apache-2.0
// Compiled kernels in a folder that processes share. A file is one kernel: a header with length, checksum and key, then
// the cubin. It appears under its name only when whole. Anything else there is ignored and replaced; a folder that
// cannot be used costs speed and nothing else. The folder may be emptied at any time.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "backend/cuda/nvrtc.h"
#include "base/hash.h"
#include "base/status.h"

namespace fovea::cuda {

class DiskCache {
 public:
  struct Entry {
    NvrtcVersion version;
    std::string cubin;
  };

  // The default folder by the environment; empty where that names none.
  static std::string default_folder();

  // An empty folder name turns the cache off; `reason` says why, for describe().
  explicit DiskCache(std::string folder, std::string reason = "off");

  // Entries of exactly this version, or, where it is 0.0, of the newest one up to max_major.
  bool find(const Hash128& key, const NvrtcVersion& version, int max_major, Entry& out) const;

  // Calls `compile` unless another process publishes the kernel first, and publishes what it made. Of several processes
  // with one key one compiles and the others wait for it, at most `patience`; then they compile too.
  Status find_or_make(const Hash128& key, const NvrtcVersion& version,
                      const std::function<Status(std::string&)>& compile, std::string& cubin, bool& compiled);

  std::string describe() const;
  const std::string& folder() const { return folder_; }
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }

 private:
  std::string path(const Hash128& key, const NvrtcVersion& version) const;
  bool read(const Hash128& key, const NvrtcVersion& version, std::string& cubin) const;
  void publish(const Hash128& key, const NvrtcVersion& version, const std::string& cubin);
  bool make_folder();

  std::string folder_;
  std::string reason_;
  std::chrono::milliseconds patience_{20000};
  mutable std::mutex mutex_;
  bool folder_made_ = false;
  std::string problem_;  // the last reason why a kernel could not be kept
};

}  // namespace fovea::cuda
