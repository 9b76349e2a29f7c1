// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_driver.h"

#include "engine/error.h"

namespace fovea::bench {

const CudaDriver& CudaDriver::instance() {
  static const CudaDriver driver = [] {
    CudaDriver made;
    made.open();
    return made;
  }();
  return driver;
}

void CudaDriver::open() {
  void* library = open_library({"libcuda.so.1"});
  if (library == nullptr) throw app::Error("libcuda.so.1 is not there: a benchmark on CUDA needs the driver");
  const auto find = [&](auto&... calls) {
    const char* missing = nullptr;
    ((find_symbol(library, calls) || (missing = calls.name)), ...);
    if (missing != nullptr) throw app::Error(std::string("libcuda.so.1 has no ") + missing + ": it is too old");
  };
  find(init, get_error_name, get_error_string, device_get, device_total_mem, primary_ctx_retain, primary_ctx_release,
       ctx_set_current, stream_create, stream_destroy, stream_synchronize, stream_begin_capture, stream_end_capture,
       graph_instantiate, graph_launch, graph_exec_destroy, graph_destroy, event_create, event_destroy, event_record,
       event_elapsed_time, mem_alloc, mem_free, memcpy_h2d, memcpy_d2h, memcpy_d2d, memset_d8);
  (*this)(init, 0u);
}

void CudaDriver::fail(const char* call, int result) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (get_error_name.address(result, &name) != 0 || name == nullptr) name = "an unknown error";
  if (get_error_string.address(result, &words) != 0 || words == nullptr) words = "no description";
  throw app::Error(std::string(call) + ": " + name + " (" + words + ")");
}

}  // namespace fovea::bench
