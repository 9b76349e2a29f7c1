// SPDX-License-Identifier: Apache-2.0
// Folders, compilers and processes for the tests of the CUDA runtime. None of them needs a device.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "backend/cuda/nvrtc.h"

namespace fovea::cuda {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fovea-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& below = "") const { return below.empty() ? path_ : path_ + "/" + below; }

 private:
  std::string path_;
};

inline void write(const std::string& path, const std::string& data) {
  std::ofstream(path, std::ios::binary) << data;
}
inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The machine's compiler; null where it has none, with the reason in `why`.
inline const Nvrtc* machine_nvrtc(std::string* why = nullptr) {
  static std::unique_ptr<Nvrtc> nvrtc;
  static const Status status = Nvrtc::open("", Nvrtc::kNewestMajor, nvrtc);
  if (why != nullptr) *why = status.message();
  return nvrtc.get();
}

// A process that runs `body` and ends with what it answers.
class Child {
 public:
  template <class Body>
  explicit Child(const Body& body) : pid_(fork()) {
    if (pid_ == 0) _exit(body());
  }
  ~Child() {
    if (pid_ > 0) stop();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Its exit code; -1 where a signal ended it.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void stop() {
    kill(pid_, SIGKILL);
    wait();
  }

 private:
  pid_t pid_;
};

inline void wait_for_file(const std::string& path) {
  for (int i = 0; i < 2000 && !std::filesystem::exists(path); ++i) usleep(5000);
}

}  // namespace fovea::cuda

#define SKIP_WITHOUT_NVRTC()                                                \
  do {                                                                      \
    std::string why;                                                        \
    if (::fovea::cuda::machine_nvrtc(&why) == nullptr) GTEST_SKIP() << why; \
  } while (false)
