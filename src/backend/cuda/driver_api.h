// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's driver interface that is used, declared here so that no toolkit is needed to build: CUDA 12 and
// later, x86-64 and AArch64 Linux.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/shared_library.h"

namespace fovea::cuda {

using Result = int;  // CUresult; 0 is success
using Device = int;
using DevicePtr = unsigned long long;
using DriverContext = struct CUctx_st*;
using DriverModule = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;

// The values that are used of each enum.
namespace result {
inline constexpr Result out_of_memory = 2, no_device = 100;
}
namespace device_attribute {
inline constexpr int sm_count = 16, l2_bytes = 38, major = 75, minor = 76, smem_per_block_optin = 97;
}
namespace function_attribute {
inline constexpr int max_threads = 0, static_smem = 1, local_bytes = 3, registers = 4, max_dynamic_smem = 8;
}
namespace launch_attribute {
inline constexpr int cluster_dim = 4, programmatic_stream_serialization = 6;
}
namespace capture_mode {
inline constexpr int global = 0, thread_local_ = 1, relaxed = 2;
}
inline constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0;
namespace tensor_map {
inline constexpr int uint8 = 0, uint16 = 1, uint32 = 2, uint64 = 4;
inline constexpr int no_interleave = 0, no_swizzle = 0, swizzle_32 = 1, swizzle_64 = 2, swizzle_128 = 3;
inline constexpr int l2_promotion_256 = 3, fill_zeros = 0;
}  // namespace tensor_map

struct LaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union Value {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster_dim;
    int programmatic_stream_serialization;
  } value = {};
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);

struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;     // blocks
  unsigned block_x = 1, block_y = 1, block_z = 1;  // threads
  unsigned smem_bytes = 0;                         // dynamic
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

struct DriverApi {
  SymbolList symbols;

  Symbol<Result(unsigned flags)> init{symbols, "cuInit"};
  Symbol<Result(int* version)> driver_get_version{symbols, "cuDriverGetVersion"};
  Symbol<Result(Result, const char**)> get_error_name{symbols, "cuGetErrorName"};
  Symbol<Result(Result, const char**)> get_error_string{symbols, "cuGetErrorString"};

  Symbol<Result(int* count)> device_get_count{symbols, "cuDeviceGetCount"};
  Symbol<Result(Device*, int ordinal)> device_get{symbols, "cuDeviceGet"};
  Symbol<Result(char* name, int size, Device)> device_get_name{symbols, "cuDeviceGetName"};
  Symbol<Result(int* value, int attribute, Device)> device_get_attribute{symbols, "cuDeviceGetAttribute"};
  Symbol<Result(size_t* bytes, Device)> device_total_mem{symbols, "cuDeviceTotalMem_v2"};

  Symbol<Result(DriverContext*, Device)> device_primary_ctx_retain{symbols, "cuDevicePrimaryCtxRetain"};
  Symbol<Result(Device)> device_primary_ctx_release{symbols, "cuDevicePrimaryCtxRelease_v2"};
  Symbol<Result(DriverContext*)> ctx_get_current{symbols, "cuCtxGetCurrent"};
  Symbol<Result(DriverContext)> ctx_push_current{symbols, "cuCtxPushCurrent_v2"};
  Symbol<Result(DriverContext*)> ctx_pop_current{symbols, "cuCtxPopCurrent_v2"};
  Symbol<Result()> ctx_synchronize{symbols, "cuCtxSynchronize"};

  Symbol<Result(DriverModule*, const void* image)> module_load_data{symbols, "cuModuleLoadData"};
  Symbol<Result(DriverModule)> module_unload{symbols, "cuModuleUnload"};
  Symbol<Result(Function*, DriverModule, const char* name)> module_get_function{symbols, "cuModuleGetFunction"};
  Symbol<Result(int* value, int attribute, Function)> func_get_attribute{symbols, "cuFuncGetAttribute"};
  Symbol<Result(Function, int attribute, int value)> func_set_attribute{symbols, "cuFuncSetAttribute"};
  Symbol<Result(int* blocks, Function, int threads, size_t smem)> occupancy_max_active_blocks{
      symbols, "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  Symbol<Result(int* clusters, Function, const LaunchConfig*)> occupancy_max_active_clusters{
      symbols, "cuOccupancyMaxActiveClusters"};
  Symbol<Result(const LaunchConfig*, Function, void** params, void** extra)> launch_kernel_ex{symbols,
                                                                                              "cuLaunchKernelEx"};
  Symbol<Result(void* map, int type, unsigned rank, void* address, const uint64_t* sizes, const uint64_t* strides,
                const unsigned* box, const unsigned* element_strides, int interleave, int swizzle, int l2_promotion,
                int fill)>
      tensor_map_encode_tiled{symbols, "cuTensorMapEncodeTiled"};

  Symbol<Result(Stream*, unsigned flags)> stream_create{symbols, "cuStreamCreate"};
  Symbol<Result(Stream)> stream_destroy{symbols, "cuStreamDestroy_v2"};
  Symbol<Result(Stream)> stream_synchronize{symbols, "cuStreamSynchronize"};
  Symbol<Result(Stream, Event, unsigned flags)> stream_wait_event{symbols, "cuStreamWaitEvent"};
  Symbol<Result(Stream, int* status)> stream_is_capturing{symbols, "cuStreamIsCapturing"};
  Symbol<Result(Stream, int mode)> stream_begin_capture{symbols, "cuStreamBeginCapture_v2"};
  Symbol<Result(Stream, Graph*)> stream_end_capture{symbols, "cuStreamEndCapture"};
  Symbol<Result(int* mode)> thread_exchange_capture_mode{symbols, "cuThreadExchangeStreamCaptureMode"};
  Symbol<Result(GraphExec*, Graph, unsigned long long flags)> graph_instantiate{symbols, "cuGraphInstantiateWithFlags"};
  Symbol<Result(GraphExec, Stream)> graph_launch{symbols, "cuGraphLaunch"};
  Symbol<Result(GraphExec)> graph_exec_destroy{symbols, "cuGraphExecDestroy"};
  Symbol<Result(Graph)> graph_destroy{symbols, "cuGraphDestroy"};

  Symbol<Result(Event*, unsigned flags)> event_create{symbols, "cuEventCreate"};
  Symbol<Result(Event)> event_destroy{symbols, "cuEventDestroy_v2"};
  Symbol<Result(Event, Stream)> event_record{symbols, "cuEventRecord"};
  Symbol<Result(Event)> event_synchronize{symbols, "cuEventSynchronize"};
  Symbol<Result(float* milliseconds, Event, Event)> event_elapsed_time{symbols, "cuEventElapsedTime"};

  Symbol<Result(DevicePtr*, size_t bytes)> mem_alloc{symbols, "cuMemAlloc_v2"};
  Symbol<Result(DevicePtr)> mem_free{symbols, "cuMemFree_v2"};
  Symbol<Result(DevicePtr, const void*, size_t bytes, Stream)> memcpy_h2d_async{symbols, "cuMemcpyHtoDAsync_v2"};
  Symbol<Result(void*, DevicePtr, size_t bytes, Stream)> memcpy_d2h_async{symbols, "cuMemcpyDtoHAsync_v2"};
  Symbol<Result(DevicePtr, DevicePtr, size_t bytes, Stream)> memcpy_d2d_async{symbols, "cuMemcpyDtoDAsync_v2"};
  Symbol<Result(DevicePtr, unsigned char, size_t bytes, Stream)> memset_d8_async{symbols, "cuMemsetD8Async"};
};

}  // namespace fovea::cuda
