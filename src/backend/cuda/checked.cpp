// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/checked.h"

namespace fovea::cuda {

namespace {

Status refuse_capture(const CudaContext& context, void* stream) {
  if (!context.has_device()) return unsupported("a context made with arch has no device to run on");
  const ScopedContext scope(context.primary());
  FOVEA_TRY(scope.status());
  bool capturing = false;
  FOVEA_TRY(is_capturing(context.driver(), static_cast<Stream>(stream), capturing));
  if (!capturing) return {};
  return invalid_value("exec.flags", "FOVEA_EXEC_CHECK", "must be 0 while the stream is captured: a check waits");
}

}  // namespace

CheckedCall::~CheckedCall() {
  if (report_ == nullptr) return;
  const ScopedContext scope(context_.primary());
  if (!scope.status().ok()) return;
  static_cast<void>(context_.driver().api().mem_free(reinterpret_cast<DevicePtr>(report_)));
}

Status CheckedCall::open() {
  FOVEA_TRY(refuse_capture(context_, stream_));
  const ScopedContext scope(context_.primary());
  FOVEA_TRY(scope.status());
  const RelaxedCapture relaxed(context_.driver());  // allocating must not spoil captures of other threads
  DevicePtr memory = 0;
  FOVEA_TRY(context_.driver().call(context_.driver().api().mem_alloc, &memory, sizeof(CheckReport)));
  report_ = reinterpret_cast<CheckReport*>(memory);
  return clear();
}

Status CheckedCall::clear() const {
  const ScopedContext scope(context_.primary());
  FOVEA_TRY(scope.status());
  // Pageable memory: the copy has taken it when the call returns.
  const CheckReport empty;
  return context_.driver().call(context_.driver().api().memcpy_h2d_async, reinterpret_cast<DevicePtr>(report_),
                                static_cast<const void*>(&empty), sizeof empty, stream_);
}

Status CheckedCall::read(void* to, const void* from, size_t bytes) const {
  const Driver& driver = context_.driver();
  const ScopedContext scope(context_.primary());
  FOVEA_TRY(scope.status());
  FOVEA_TRY(driver.call(driver.api().memcpy_d2h_async, to, reinterpret_cast<DevicePtr>(from), bytes, stream_));
  return driver.call(driver.api().stream_synchronize, stream_);
}

Status CheckedCall::finish(CheckReport& out) {
  FOVEA_TRY(read(&out, report_, sizeof out));
  return clear();
}

Status CheckedCall::index_of(const View& v, i64_t i, i64_t& out) const {
  const char* from = row(v, i);
  if (v.dtype == Dtype::i64) return read(&out, from, sizeof out);
  i32_t narrow = 0;
  FOVEA_TRY(read(&narrow, from, sizeof narrow));
  out = narrow;
  return {};
}

Status CheckedCall::index_of(const View& v, i64_t i, i64_t j, i64_t& out) const {
  View line = v;
  line.data = address(v, i * v.stride[0]);
  line.stride[0] = v.stride[1];
  return index_of(line, j, out);
}

Status refuse_capture_if_checked(const CudaContext& context, const fovea_exec& exec) {
  return exec.flags & FOVEA_EXEC_CHECK ? refuse_capture(context, exec.stream) : Status();
}

Status wait_if_checked(const CudaContext& context, const fovea_exec& exec) {
  if (!(exec.flags & FOVEA_EXEC_CHECK)) return {};
  const ScopedContext scope(context.primary());
  FOVEA_TRY(scope.status());
  return context.driver().call(context.driver().api().stream_synchronize, static_cast<Stream>(exec.stream));
}

}  // namespace fovea::cuda
