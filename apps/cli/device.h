// SPDX-License-Identifier: Apache-2.0
// The options that choose where kernels run, and where those of a device come from: the same words in every command.
#pragma once

#include <CLI/CLI.hpp>
#include <fovea/fovea.hpp>
#include <string>

namespace fovea::app {

class DeviceOptions {
 public:
  void add_to(CLI::App& app);
  Context open() const;  // an unknown or absent device: an exception with one line

 private:
  std::string device_ = "cpu";
  int threads_ = 0;
  std::string isa_, compile_, bundle_, cache_, nvrtc_;
};

}  // namespace fovea::app
