// SPDX-License-Identifier: Apache-2.0
// The calls of CUDA's driver that benchmarks make. No toolkit is needed to build: CUDA 12 and later, 64-bit Linux.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/shared_library.h"

namespace fovea::bench {

using CudaPointer = unsigned long long;
using CudaContextHandle = struct CUctx_st*;
using CudaStream = struct CUstream_st*;
using CudaEvent = struct CUevent_st*;
using CudaGraph = struct CUgraph_st*;
using CudaGraphExec = struct CUgraphExec_st*;

inline CudaPointer cuda_pointer(const void* p) {
  return reinterpret_cast<CudaPointer>(p);
}

struct CudaDriver {
  // The process's driver, initialised. Throws app::Error where there is none.
  static const CudaDriver& instance();

  // Makes a call; app::Error names it and the driver's error.
  template <class... Args, class... Given>
  void operator()(const LibraryCall<Args...>& call, Given... given) const {
    if (const int result = call.address(given...)) fail(call.name, result);
  }
  [[noreturn]] void fail(const char* call, int result) const;

  LibraryCall<unsigned> init{"cuInit"};
  LibraryCall<int, const char**> get_error_name{"cuGetErrorName"};
  LibraryCall<int, const char**> get_error_string{"cuGetErrorString"};
  LibraryCall<int*, int> device_get{"cuDeviceGet"};
  LibraryCall<size_t*, int> device_total_mem{"cuDeviceTotalMem_v2"};
  LibraryCall<CudaContextHandle*, int> primary_ctx_retain{"cuDevicePrimaryCtxRetain"};
  LibraryCall<int> primary_ctx_release{"cuDevicePrimaryCtxRelease_v2"};
  LibraryCall<CudaContextHandle> ctx_set_current{"cuCtxSetCurrent"};
  LibraryCall<CudaStream*, unsigned> stream_create{"cuStreamCreate"};
  LibraryCall<CudaStream> stream_destroy{"cuStreamDestroy_v2"};
  LibraryCall<CudaStream> stream_synchronize{"cuStreamSynchronize"};
  LibraryCall<CudaStream, int> stream_begin_capture{"cuStreamBeginCapture_v2"};
  LibraryCall<CudaStream, CudaGraph*> stream_end_capture{"cuStreamEndCapture"};
  LibraryCall<CudaGraphExec*, CudaGraph, unsigned long long> graph_instantiate{"cuGraphInstantiateWithFlags"};
  LibraryCall<CudaGraphExec, CudaStream> graph_launch{"cuGraphLaunch"};
  LibraryCall<CudaGraphExec> graph_exec_destroy{"cuGraphExecDestroy"};
  LibraryCall<CudaGraph> graph_destroy{"cuGraphDestroy"};
  LibraryCall<CudaEvent*, unsigned> event_create{"cuEventCreate"};
  LibraryCall<CudaEvent> event_destroy{"cuEventDestroy_v2"};
  LibraryCall<CudaEvent, CudaStream> event_record{"cuEventRecord"};
  LibraryCall<float*, CudaEvent, CudaEvent> event_elapsed_time{"cuEventElapsedTime"};
  LibraryCall<CudaPointer*, size_t> mem_alloc{"cuMemAlloc_v2"};
  LibraryCall<CudaPointer> mem_free{"cuMemFree_v2"};
  LibraryCall<CudaPointer, const void*, size_t, CudaStream> memcpy_h2d{"cuMemcpyHtoDAsync_v2"};
  LibraryCall<void*, CudaPointer, size_t, CudaStream> memcpy_d2h{"cuMemcpyDtoHAsync_v2"};
  LibraryCall<CudaPointer, CudaPointer, size_t, CudaStream> memcpy_d2d{"cuMemcpyDtoDAsync_v2"};
  LibraryCall<CudaPointer, unsigned char, size_t, CudaStream> memset_d8{"cuMemsetD8Async"};

 private:
  void open();
};

}  // namespace fovea::bench
