// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/launch.h"

namespace fovea::cuda {

namespace {

Status refused(const Kernel& kernel, const std::string& why) {
  return {FOVEA_INTERNAL, "launching " + kernel.name + ": " + why};
}

Status check_shape(const CudaContext& context, const Kernel& kernel, const LaunchShape& shape) {
  const bool cluster = shape.cluster.x * shape.cluster.y * shape.cluster.z != 1;
  if ((cluster || shape.early) && context.caps.compute_capability < 90) {
    return refused(kernel, "clusters and early launches need compute capability 9.0");
  }
  const unsigned threads = shape.block.x * shape.block.y * shape.block.z;
  if (threads > static_cast<unsigned>(kernel.max_threads)) {
    return refused(kernel, std::to_string(threads) + " threads a block: at most " + std::to_string(kernel.max_threads));
  }
  if (shape.smem_bytes > static_cast<unsigned>(kernel.dynamic_smem)) {
    return refused(kernel, std::to_string(shape.smem_bytes) + " bytes of dynamic shared memory: at most " +
                               std::to_string(kernel.dynamic_smem));
  }
  return {};
}

}  // namespace

Status check_parameters(const CudaContext& context, const KernelUse& use, size_t bytes) {
  if (!context.has_device() || context.driver().version() >= 12010) return {};
  return unsupported("launching " + name(use.request) + ": " + std::to_string(bytes) +
                     " bytes of parameters need a driver of CUDA 12.1");
}

Status launch_raw(const CudaContext& context, const KernelUse& use, const LaunchShape& shape, const void* args,
                  void* stream) {
  if (!context.has_device()) return unsupported("a context made with arch has no device to run on");
  if (use.loaded == nullptr) return {FOVEA_INTERNAL, name(use.request) + " was not loaded"};
  const Kernel& kernel = *static_cast<const Kernel*>(use.loaded);
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return {};
  FOVEA_TRY(check_shape(context, kernel, shape));

  LaunchAttribute attributes[2];
  LaunchConfig config{.grid_x = shape.grid.x,
                      .grid_y = shape.grid.y,
                      .grid_z = shape.grid.z,
                      .block_x = shape.block.x,
                      .block_y = shape.block.y,
                      .block_z = shape.block.z,
                      .smem_bytes = shape.smem_bytes,
                      .stream = static_cast<Stream>(stream),
                      .attributes = attributes};
  if (shape.cluster.x * shape.cluster.y * shape.cluster.z != 1) {
    LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = launch_attribute::cluster_dim;
    attribute.value.cluster_dim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  }
  if (shape.early) {
    LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = launch_attribute::programmatic_stream_serialization;
    attribute.value.programmatic_stream_serialization = 1;
  }
  const ScopedContext scope(context.primary());
  FOVEA_TRY(scope.status());
  void* params[] = {const_cast<void*>(args)};
  const Result result =
      context.driver().api().launch_kernel_ex(&config, kernel.function, params, static_cast<void**>(nullptr));
  if (result == 0) return {};
  const Status status = context.driver().error("cuLaunchKernelEx", result);
  return {status.code(), "launching " + kernel.name + ": " + status.message()};
}

Status blocks_per_sm(const CudaContext& context, const KernelUse& use, unsigned threads, unsigned smem_bytes,
                     int& out) {
  if (!context.has_device() || use.loaded == nullptr) return {FOVEA_INTERNAL, name(use.request) + " was not loaded"};
  const ScopedContext scope(context.primary());
  FOVEA_TRY(scope.status());
  return context.driver().call(context.driver().api().occupancy_max_active_blocks, &out,
                               static_cast<const Kernel*>(use.loaded)->function, static_cast<int>(threads),
                               static_cast<size_t>(smem_bytes));
}

}  // namespace fovea::cuda
