// SPDX-License-Identifier: Apache-2.0
// Runs the `fovea` command as a user does.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fovea::app {

struct Outcome {
  int code = -1;  // exit code, or minus the signal
  std::string out, err;
};

// Runs `fovea` with the arguments; once `interrupt_after` bytes of stdout have come, sends it SIGINT. `environment`
// holds NAME, VALUE pairs that are set for it.
inline Outcome fovea(const std::vector<std::string>& arguments, size_t interrupt_after = SIZE_MAX,
                     const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  int out[2], err[2];
  if (::pipe(out) != 0 || ::pipe(err) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
    std::vector<char*> argv = {const_cast<char*>("fovea")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(FOVEA_CLI, argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Outcome result;
  pollfd streams[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  for (int open = 2; open > 0;) {
    ::poll(streams, 2, -1);
    for (pollfd& stream : streams) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(stream.fd, buffer, sizeof(buffer));
      if (n <= 0) {
        stream.fd = -1;
        --open;
        continue;
      }
      (stream.fd == out[0] ? result.out : result.err).append(buffer, static_cast<size_t>(n));
    }
    if (result.out.size() >= interrupt_after) {
      ::kill(child, SIGINT);
      interrupt_after = SIZE_MAX;
    }
  }
  ::close(out[0]);
  ::close(err[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

// Exit code 2, nothing on stdout, and one line on stderr that holds `part`.
inline void expect_fault(const std::vector<std::string>& arguments, const std::string& part) {
  const Outcome r = fovea(arguments);
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err.rfind("fovea: ", 0), 0u) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find(part), std::string::npos) << "message: " << r.err << "wanted: " << part;
}

}  // namespace fovea::app
