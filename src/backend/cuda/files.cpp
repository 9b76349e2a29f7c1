// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace fovea::cuda {

namespace {

Status io_error(const std::string& path, const char* doing) {
  return {FOVEA_IO, path + ": cannot " + doing + " it (" + std::strerror(errno) + ")"};
}

bool write_all(int fd, const std::string& data) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t n = write(fd, data.data() + done, data.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// Names of two processes, or of two threads of one, differ.
std::string partial_name(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
  return path + "." + std::to_string(getpid()) + "-" + std::to_string(ticks) + "-" + std::to_string(counter++) +
         kPartialSuffix;
}

}  // namespace

File::~File() {
  if (fd_ >= 0) close(fd_);
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

int File::release() {
  return std::exchange(fd_, -1);
}

Status open_for_reading(const std::string& path, File& out, uint64_t& bytes) {
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return io_error(path, "open");
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return io_error(path, "open");
  if (!S_ISREG(facts.st_mode)) return {FOVEA_IO, path + ": is not a file"};
  bytes = static_cast<uint64_t>(facts.st_size);
  out = std::move(file);
  return {};
}

Status read_at(const File& file, const std::string& path, uint64_t offset, uint64_t bytes, void* out) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n =
        pread(file.get(), static_cast<char*>(out) + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "read");
    if (n == 0) return {FOVEA_IO, path + ": ends too early"};
    done += static_cast<uint64_t>(n);
  }
  return {};
}

Status read_file(const std::string& path, std::string& out) {
  File file;
  uint64_t bytes = 0;
  FOVEA_TRY(open_for_reading(path, file, bytes));
  out.resize(bytes);
  return read_at(file, path, 0, bytes, out.data());
}

Status publish_file(const std::string& path, const std::string& data) {
  const std::string partial = partial_name(path);
  File file(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) return io_error(partial, "create");
  Status status;
  if (!write_all(file.get(), data) || fsync(file.get()) != 0) status = io_error(partial, "write");
  if (close(file.release()) != 0 && status.ok()) status = io_error(partial, "write");
  if (status.ok() && rename(partial.c_str(), path.c_str()) != 0) status = io_error(path, "replace");
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

FileLock::State FileLock::try_take(const std::string& path, FileLock& out) {
  File file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) return State::impossible;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? State::busy : State::impossible;
  out.file_ = std::move(file);
  out.path_ = path;
  return State::taken;
}

void FileLock::remove() {
  if (file_.is_open()) unlink(path_.c_str());
  file_ = File();
}

}  // namespace fovea::cuda
