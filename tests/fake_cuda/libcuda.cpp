// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 whose device is this process: memory is the host's, kernels are loaded and launched but compute
// nothing. Tests of the `fovea` command use it to go the whole way of a device's benchmark on machines without one. It
// counts what it hands out and gets back, and FAKE_CUDA_REPORT names a file that receives the counts when the process
// ends.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;
using Pointer = unsigned long long;

constexpr int kInvalidValue = 1, kNotReady = 600;

struct Counts {
  int64_t memory = 0, streams = 0, events = 0, graphs = 0, execs = 0, modules = 0, contexts = 0;  // alive
  int64_t launches = 0, captured = 0, replays = 0, copies = 0;
  ~Counts() {
    const char* path = std::getenv("FAKE_CUDA_REPORT");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    std::fprintf(file,
                 "{\"alive\": %lld, \"launches\": %lld, \"captured\": %lld, \"replays\": %lld, \"copies\": %lld}\n",
                 static_cast<long long>(memory + streams + events + graphs + execs + modules + contexts),
                 static_cast<long long>(launches), static_cast<long long>(captured), static_cast<long long>(replays),
                 static_cast<long long>(copies));
    std::fclose(file);
  }
} counts;

bool capturing = false;
int context = 0, stream = 0, module = 0, function = 0, graph = 0, exec = 0;

struct Event {
  Clock::time_point at;
  bool recorded = false;
};

template <class T>
T* as(Pointer p) {
  return reinterpret_cast<T*>(p);
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuGetErrorName(int result, const char** name) {
  *name = result == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error of the fake driver";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : kInvalidValue;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "Fake H200");
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 16:  // multiprocessors
      *value = 132;
      return 0;
    case 38:  // L2
      *value = 1 << 20;
      return 0;
    case 75:
      *value = 9;
      return 0;
    case 76:
      *value = 0;
      return 0;
    case 97:  // shared memory of a block
      *value = 232448;
      return 0;
    default:
      return kInvalidValue;
  }
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{512} << 20;
  return 0;
}
int cuDevicePrimaryCtxRetain(int** out, int) {
  ++counts.contexts;
  *out = &context;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  --counts.contexts;
  return 0;
}
int cuCtxGetCurrent(int** out) {
  *out = &context;
  return 0;
}
int cuCtxSetCurrent(int*) {
  return 0;
}
int cuCtxPushCurrent_v2(int*) {
  return 0;
}
int cuCtxPopCurrent_v2(int**) {
  return 0;
}
int cuCtxSynchronize() {
  return 0;
}

int cuModuleLoadData(int** out, const void* image) {
  if (std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return kInvalidValue;
  ++counts.modules;
  *out = &module;
  return 0;
}
int cuModuleUnload(int*) {
  --counts.modules;
  return 0;
}
int cuModuleGetFunction(int** out, int*, const char*) {
  *out = &function;
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, int*) {
  *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;  // threads of a block, registers
  return 0;
}
int cuFuncSetAttribute(int*, int, int) {
  return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, int*, int, size_t) {
  *blocks = 1;
  return 0;
}
int cuOccupancyMaxActiveClusters(int* clusters, int*, const void*) {
  *clusters = 1;
  return 0;
}
int cuLaunchKernelEx(const void*, int*, void**, void**) {
  ++(capturing ? counts.captured : counts.launches);
  return 0;
}

int cuStreamCreate(int** out, unsigned) {
  ++counts.streams;
  *out = &stream;
  return 0;
}
int cuStreamDestroy_v2(int*) {
  --counts.streams;
  return 0;
}
int cuStreamSynchronize(int*) {
  return capturing ? kInvalidValue : 0;
}
int cuStreamWaitEvent(int*, Event*, unsigned) {
  return 0;
}
int cuStreamIsCapturing(int*, int* status) {
  *status = capturing;
  return 0;
}
int cuStreamBeginCapture_v2(int*, int) {
  capturing = true;
  return 0;
}
int cuStreamEndCapture(int*, int** out) {
  capturing = false;
  ++counts.graphs;
  *out = &graph;
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int*) {
  return 0;
}
int cuGraphInstantiateWithFlags(int** out, int*, unsigned long long) {
  ++counts.execs;
  *out = &exec;
  return 0;
}
int cuGraphLaunch(int*, int*) {
  ++counts.replays;
  return 0;
}
int cuGraphExecDestroy(int*) {
  --counts.execs;
  return 0;
}
int cuGraphDestroy(int*) {
  --counts.graphs;
  return 0;
}

int cuEventCreate(Event** out, unsigned) {
  ++counts.events;
  *out = new Event;
  return 0;
}
int cuEventDestroy_v2(Event* event) {
  --counts.events;
  delete event;
  return 0;
}
int cuEventRecord(Event* event, int*) {
  event->at = Clock::now();
  event->recorded = true;
  return 0;
}
int cuEventSynchronize(Event*) {
  return 0;
}
int cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
  if (!from->recorded || !to->recorded) return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return 0;
}

int cuMemAlloc_v2(Pointer* out, size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  ++counts.memory;
  *out = reinterpret_cast<Pointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return 0;
}
int cuMemFree_v2(Pointer p) {
  --counts.memory;
  std::free(as<void>(p));
  return 0;
}
int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, int*) {
  std::memcpy(as<void>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, int*) {
  std::memcpy(to, as<void>(from), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, int*) {
  ++counts.copies;
  std::memcpy(as<void>(to), as<void>(from), bytes);
  return 0;
}
int cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, int*) {
  std::memset(as<void>(to), value, bytes);
  return 0;
}

int cuTensorMapEncodeTiled(void* map, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*,
                           const unsigned*, int, int, int, int) {
  std::memset(map, 0, 128);
  return 0;
}

}  // extern "C"
