// SPDX-License-Identifier: Apache-2.0
// Files of the cache and of bundles: whole reads, publishing at once, and locks that a dead process does not keep.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace fovea::cuda {

// Closes the descriptor with its scope.
class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  ~File();
  File(File&& other) noexcept : fd_(other.release()) {}
  File& operator=(File&& other) noexcept;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

Status open_for_reading(const std::string& path, File& out, uint64_t& bytes);
// IO where the file ends before.
Status read_at(const File& file, const std::string& path, uint64_t offset, uint64_t bytes, void* out);
Status read_file(const std::string& path, std::string& out);

// Writes `data` beside `path` under a name of this process, flushes it to the disk and renames it: others see the old
// file or the whole new one. On an error nothing is left behind.
Status publish_file(const std::string& path, const std::string& data);
constexpr char kPartialSuffix[] = ".partial";  // of the names that publish_file writes under

// An advisory lock on a file of its own. The kernel drops it when the holder ends, however it ends.
class FileLock {
 public:
  enum class State { taken, busy, impossible };  // impossible: no such folder, read-only, no locks there
  // Tries once.
  static State try_take(const std::string& path, FileLock& out);
  // Removes the file and lets go. Whoever still waits on the removed file finds the result published.
  void remove();

 private:
  File file_;
  std::string path_;
};

}  // namespace fovea::cuda
