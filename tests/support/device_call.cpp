// SPDX-License-Identifier: Apache-2.0
#include "support/device_call.h"

#include <cstring>

namespace fovea::test {

std::unique_ptr<CopiedParams> params_for(int32_t device_type, int32_t device_id, int32_t op, const void* params,
                                         const char* kernel) {
  std::unique_ptr<CopiedParams> copied = copy_params(op, params);
  if (copied == nullptr) return nullptr;
  if (kernel != nullptr) copied->force_kernel(kernel);
  copied->visit([&](const std::string&, void*&, fovea_tensor* tensor, bool) {
    if (tensor == nullptr || tensor->device_type != FOVEA_CPU) return;  // a test may say another device on purpose
    tensor->device_type = device_type;
    tensor->device_id = device_id;
  });
  return copied;
}

DeviceCall::DeviceCall(TestDevice& device, int32_t op, const void* params, WorkspaceBytes bytes, const Exec& exec,
                       uint8_t scratch_fill, const char* kernel)
    : params_(params_for(device.type(), device.id(), op, params, kernel)),
      scratch_(bytes.scratch, Place::end, scratch_fill),  // of any alignment
      sync_((bytes.sync + 7) / 8 * 8, Place::end, 0),
      status_(sizeof(uint32_t)),
      host_status_(exec.status),
      exec_(exec),
      mirror_(device) {
  if (params_ == nullptr) {
    mistake_ = "tests/support/copied_params.cpp has no such operation";
    return;
  }
  mirror_.add("exec.scratch", scratch_.data(), Use::scratch);
  mirror_.add("exec.sync", sync_.data(), Use::output);
  mirror_.add("exec.status", status_.data(), Use::output);
  params_->visit([&](const std::string& name, void*& data, fovea_tensor*, bool written) {
    if (data == nullptr || mirror_.add(name, data, written ? Use::output : Use::input)) return;
    mistake_ = name + " points to memory that is no allocation of the tests";
  });
  if (!mistake_.empty()) return;
  enough_memory_ = mirror_.place();
  if (!enough_memory_) return;
  params_->visit([&](const std::string&, void*& data, fovea_tensor*, bool) {
    if (data != nullptr) data = mirror_.address(data);
  });
  exec_.scratch = mirror_.address(scratch_.data());
  exec_.scratch_bytes = bytes.scratch;
  exec_.sync = mirror_.address(sync_.data());
  exec_.sync_bytes = bytes.sync;
  exec_.status = host_status_ != nullptr ? static_cast<uint32_t*>(mirror_.address(status_.data())) : nullptr;
  if (exec_.stream == nullptr) exec_.stream = device.stream();
}

void DeviceCall::upload(bool late) {
  if (host_status_ != nullptr) std::memcpy(status_.data(), host_status_, sizeof *host_status_);
  if (late) {
    mirror_.upload_late();
  } else {
    mirror_.upload();
  }
}

Mirror::LateCopy DeviceCall::put_off() {
  if (host_status_ != nullptr) std::memcpy(status_.data(), host_status_, sizeof *host_status_);
  return mirror_.put_off();
}

std::vector<std::string> DeviceCall::download() {
  std::vector<std::string> faults = mirror_.download();
  if (host_status_ != nullptr) std::memcpy(host_status_, status_.data(), sizeof *host_status_);
  if (!sync_.all(0)) faults.push_back("sync is not left zero");
  return faults;
}

}  // namespace fovea::test
