// SPDX-License-Identifier: Apache-2.0
// One call of an operation with all its memory mirrored on a device: parameters, workspace, status word. The contents
// of the tests' allocations may change between uploads; addresses stay, so a captured graph can be replayed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.hpp"
#include "support/copied_params.h"
#include "support/guarded.h"
#include "support/mirror.h"

namespace fovea::test {

struct WorkspaceBytes {
  uint64_t scratch = 0;
  uint64_t sync = 0;
};

class DeviceCall {
 public:
  // `exec` gives flags and the host's status word; its stream, where not null, replaces the device's own.
  DeviceCall(TestDevice& device, int32_t op, const void* params, WorkspaceBytes bytes, const Exec& exec = {},
             uint8_t scratch_fill = kPoison, const char* kernel = nullptr);

  bool enough_memory() const { return enough_memory_; }
  const std::string& mistake() const { return mistake_; }  // of the test: memory that cannot be mirrored
  const void* params() const { return params_->get(); }
  template <class Params>
  const Params& params_as() const {
    return *static_cast<const Params*>(params());
  }
  const Exec& exec() const { return exec_; }
  void set_flags(uint32_t flags) { exec_.flags = flags; }
  void upload() { upload(false); }
  void upload_late() { upload(true); }  // see Mirror
  Mirror::LateCopy put_off();           // the same
  std::vector<std::string> download();  // as Mirror's, and the sync that must be left zero

 private:
  void upload(bool late);

  std::unique_ptr<CopiedParams> params_;
  Guarded scratch_, sync_, status_;
  uint32_t* host_status_;
  Exec exec_;
  Mirror mirror_;
  bool enough_memory_ = false;
  std::string mistake_;
};

// The parameters for planning on a device: tensors are said to be there, pointers are left as they are.
std::unique_ptr<CopiedParams> params_for(int32_t device_type, int32_t device_id, int32_t op, const void* params,
                                         const char* kernel);

}  // namespace fovea::test
