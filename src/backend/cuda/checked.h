// SPDX-License-Identifier: Apache-2.0
// Checked calls (FOVEA_EXEC_CHECK): a report in device memory, and waiting for it. They are for finding faults, so they
// may do what no other call does: allocate a few bytes and wait. Not while the stream is captured.
#pragma once

#include "backend/cuda/context.h"
#include "shared/check_report.h"
#include "shared/view.h"

namespace fovea::cuda {

class CheckedCall {
 public:
  CheckedCall(const CudaContext& context, void* stream) : context_(context), stream_(static_cast<Stream>(stream)) {}
  ~CheckedCall();
  CheckedCall(const CheckedCall&) = delete;
  CheckedCall& operator=(const CheckedCall&) = delete;

  // Before anything else. Refuses a capturing stream.
  Status open();
  CheckReport* report() const { return report_; }  // device memory, empty after open() and finish()
  // Waits for the stream, and takes the report.
  Status finish(CheckReport& out);
  // Elements of index tensors on the device, waiting for them.
  Status index_of(const View& v, i64_t i, i64_t& out) const;
  Status index_of(const View& v, i64_t i, i64_t j, i64_t& out) const;

 private:
  Status read(void* to, const void* from, size_t bytes) const;
  Status clear() const;

  const CudaContext& context_;
  Stream stream_;
  CheckReport* report_ = nullptr;
};

// For operations without values to check: the call waits for its kernels, so that a fault of theirs is its error.
Status wait_if_checked(const CudaContext& context, const fovea_exec& exec);
Status refuse_capture_if_checked(const CudaContext& context, const fovea_exec& exec);

}  // namespace fovea::cuda
