// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/driver.h"

namespace fovea::cuda {

namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr int kOldestVersion = 12000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Status Driver::instance(const Driver*& out) {
  static Driver* const driver = new Driver;  // never destroyed: contexts may be, while the process ends
  static const Status status = driver->open();
  if (status.ok()) out = driver;
  return status;
}

Status Driver::open() {
  api_ = std::make_unique<DriverApi>();
  const std::string problem = open_library(kLibrary, api_->symbols);
  if (!problem.empty()) return unsupported("no CUDA driver on this machine (" + problem + ")");
  const Result result = api_->init(0);
  if (result == result::no_device) return unsupported("the CUDA driver finds no device");
  if (result != 0) return error("cuInit", result);
  FOVEA_TRY(call(api_->driver_get_version, &version_));
  if (version_ < kOldestVersion) {
    return unsupported("the CUDA driver is for CUDA " + version_text(version_) + ": CUDA " +
                       version_text(kOldestVersion) + " or later is needed");
  }
  return {};
}

Status Driver::error(const char* call, Result result) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (api_->get_error_name(result, &name) != 0) name = nullptr;
  if (api_->get_error_string(result, &words) != 0) words = nullptr;
  std::string message = std::string(call) + ": " + (name ? name : "error " + std::to_string(result));
  if (words != nullptr) message += std::string(" (") + words + ")";
  return {result == result::out_of_memory ? FOVEA_OUT_OF_MEMORY : FOVEA_DEVICE, message};
}

Status find_device(const Driver& driver, int32_t device_id, DeviceFacts& out) {
  const DriverApi& api = driver.api();
  int count = 0;
  FOVEA_TRY(driver.call(api.device_get_count, &count));
  if (count == 0) return unsupported("the CUDA driver finds no device");
  if (device_id < 0 || device_id >= count) {
    return invalid_value("device_id", device_id, "must be in [0, " + std::to_string(count) + ")");
  }
  FOVEA_TRY(driver.call(api.device_get, &out.device, device_id));
  char name[256] = {};
  FOVEA_TRY(driver.call(api.device_get_name, name, static_cast<int>(sizeof name) - 1, out.device));
  out.name = name;
  int major = 0, minor = 0, l2_bytes = 0;
  const std::pair<int, int*> wanted[] = {{device_attribute::major, &major},
                                         {device_attribute::minor, &minor},
                                         {device_attribute::sm_count, &out.sm_count},
                                         {device_attribute::smem_per_block_optin, &out.smem_bytes},
                                         {device_attribute::l2_bytes, &l2_bytes}};
  for (const auto& [attribute, value] : wanted) {
    FOVEA_TRY(driver.call(api.device_get_attribute, value, attribute, out.device));
  }
  size_t memory_bytes = 0;
  FOVEA_TRY(driver.call(api.device_total_mem, &memory_bytes, out.device));
  out.compute_capability = 10 * major + minor;
  out.l2_bytes = l2_bytes;
  out.memory_bytes = static_cast<int64_t>(memory_bytes);
  return {};
}

Status PrimaryContext::retain(const Driver& driver, Device device, std::unique_ptr<PrimaryContext>& out) {
  std::unique_ptr<PrimaryContext> made(new PrimaryContext(driver, device));
  FOVEA_TRY(driver.call(driver.api().device_primary_ctx_retain, &made->context_, device));
  out = std::move(made);
  return {};
}

// What cannot be released any more (the process is ending) is the driver's to clean up.
PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr) static_cast<void>(driver_.api().device_primary_ctx_release(device_));
}

ScopedContext::ScopedContext(const PrimaryContext& context) : driver_(context.driver()) {
  DriverContext current = nullptr;
  status_ = driver_.call(driver_.api().ctx_get_current, &current);
  if (!status_.ok() || current == context.get()) return;
  status_ = driver_.call(driver_.api().ctx_push_current, context.get());
  pushed_ = status_.ok();
}

ScopedContext::~ScopedContext() {
  DriverContext popped = nullptr;
  if (pushed_) static_cast<void>(driver_.api().ctx_pop_current(&popped));
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver) {
  static_cast<void>(driver_.api().thread_exchange_capture_mode(&mode_));
}

RelaxedCapture::~RelaxedCapture() {
  static_cast<void>(driver_.api().thread_exchange_capture_mode(&mode_));
}

Status is_capturing(const Driver& driver, Stream stream, bool& out) {
  int status = 0;
  FOVEA_TRY(driver.call(driver.api().stream_is_capturing, stream, &status));
  out = status != 0;
  return {};
}

}  // namespace fovea::cuda
