// SPDX-License-Identifier: Apache-2.0
#include "emulated/backend.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "api/context.h"
#include "backend/cpu/context.h"
#include "backend/cuda/blocks.h"
#include "emulated/compiled.h"
#include "emulated/kernels.h"
#include "ops/attention_values.h"
#include "ops/kv_append.h"
#include "ops/rope_config.h"
#include "plan/cuda_arch.h"

namespace fovea::emulated_backend {
namespace {

Caps device_caps() {
  return caps_of(*find_cuda_arch("90a"));
}

simt::Dim dim(const cuda::Dim3& d) {
  return {d.x, d.y, d.z};
}

// A place for the kernel, and poison in it and around it.
void check_smem(const cuda::LaunchShape& shape) {
  for (size_t i = shape.smem_bytes; i < sizeof simt::dynamic_memory; ++i) {
    if (simt::dynamic_memory[i] != '\x5A') throw std::logic_error("the kernel wrote beyond its shared memory");
  }
}

void launch_append(const KvAppendPlan& plan, const KvAppendBlock& block) {
  const cuda::LaunchShape shape = cuda::kv_append_shape(plan, block, 32);
  const auto& constants = plan.kernels[0].request.constants;
  const auto kernel = constants[0].value == 1   ? emulated::kv_append_1_16
                      : constants[1].value == 1 ? emulated::kv_append_8_1
                                                : emulated::kv_append_8_2;
  std::memset(simt::dynamic_memory, 0x5A, sizeof simt::dynamic_memory);
  kernel(&block, dim(shape.grid), dim(shape.block));
  check_smem(shape);
}

// As the CPU's: positions are errors of every call, not of checked ones alone.
Status kv_append(BackendContext&, const KvAppendPlan& cpu_plan, const KvAppendArgs& args, const fovea_exec& exec) {
  KvAppendPlan plan;
  FOVEA_TRY(make_plan(cpu_plan.spec, device_caps(), plan));
  KvAppendBlock block = cuda::kv_append_block(plan, args);
  CheckReport report;
  block.report = &report;
  block.check_only = 1;
  launch_append(plan, block);
  const u64_t position = report.first[static_cast<int>(AppendReport::position)];
  const u64_t slot = report.first[static_cast<int>(AppendReport::slot)];
  if (position != nothing_reported()) {
    const i64_t token = static_cast<i64_t>(position) / block.position_rows;
    const i64_t row = static_cast<i64_t>(position) % block.position_rows;
    return position_out_of_range("rope", args.spec.rotary, args.rotary, row, token,
                                 index_at(args.rotary.positions, row, token));
  }
  if (slot != nothing_reported() && exec.flags & FOVEA_EXEC_CHECK) {
    return slot_past_pool(args, static_cast<i64_t>(slot), index_at(args.slot_mapping, static_cast<i64_t>(slot)));
  }
  block.check_only = 0;
  block.status = exec.flags & FOVEA_EXEC_CHECK ? nullptr : exec.status;
  launch_append(plan, block);
  if (report.count == 0 || !(exec.flags & FOVEA_EXEC_CHECK)) return {};
  return vectors_not_finite(static_cast<i64_t>(report.count));
}

template <int capacity>
void launch_merge(const MergeStatesPlan& plan, const MergeStatesArgs& args,
                  void (*kernel)(const void*, simt::Dim, simt::Dim)) {
  const MergeStatesBlock<capacity> block = cuda::merge_states_block<capacity>(plan, args);
  const cuda::LaunchShape shape = cuda::merge_states_shape(block.rows, plan.lanes);
  kernel(&block, dim(shape.grid), dim(shape.block));
}

Status merge_states(BackendContext&, const MergeStatesPlan& cpu_plan, const MergeStatesArgs& args, const fovea_exec&) {
  MergeStatesPlan plan;
  FOVEA_TRY(make_plan(cpu_plan.spec, device_caps(), plan));
  if (plan.kernels[0].request.constants[0].value == kFewParts) {
    launch_merge<kFewParts>(plan, args, emulated::merge_states_32);
  } else {
    launch_merge<kMaxParts>(plan, args, emulated::merge_states_64);
  }
  return {};
}

// A row of the kernel table; null: that of the architecture.
const char* chosen = std::getenv("FOVEA_EMULATE");
int launches = 0;

void launch_attention(const KernelUse& use, const cuda::LaunchShape& shape, const AttentionCudaArgs& block) {
  ++launches;
  const emulated::Compiled kernel = emulated::compiled(use.request, "AttentionCudaArgs");
  std::memset(simt::dynamic_memory, 0x5A, sizeof simt::dynamic_memory);
  kernel(&block, dim(shape.grid), dim(shape.block));
  check_smem(shape);
}

// By the chosen kernels; what they do not serve by the CPU's.
Status attention(BackendContext& context, const AttentionPlan& cpu_plan, const AttentionArgs& args,
                 const fovea_exec& exec) {
  AttentionPlan plan;
  AttentionSpec spec = cpu_plan.spec;
  if (chosen != nullptr) {
    const AttentionKernel* row = find_attention_kernel(chosen);
    if (row == nullptr) throw std::logic_error("no such kernel to emulate");
    spec.kernel = static_cast<int>(row - kAttentionKernels);
  }
  if (!make_plan(spec, device_caps(), plan).ok()) return cpu::backend().attention(context, cpu_plan, args, exec);
  if (exec.flags & FOVEA_EXEC_CHECK) FOVEA_TRY(check_attention_values(args));
  if (args.spec.tokens == 0 || args.spec.batch == 0) return {};
  std::vector<char> scratch(plan.workspace.scratch, '\x7F');
  std::vector<unsigned> sync(plan.workspace.sync / sizeof(unsigned) + 1);
  fovea_exec own = exec;
  own.scratch = scratch.data();
  own.sync = sync.data();
  AttentionCudaArgs block = cuda::attention_block(args, own);
  for (int i = 0; i < plan.launch_count; ++i) {
    const AttentionLaunch& launch = plan.launches[i];
    cuda::set_launch(launch, block);
    launch_attention(plan.kernels[static_cast<size_t>(launch.kernel)], cuda::attention_shape(launch), block);
    if (launch.merge < 0) continue;
    launch_attention(plan.kernels[static_cast<size_t>(launch.merge)], cuda::attention_merge_shape(launch), block);
  }
  for (const unsigned x : sync) {
    if (x != 0) throw std::logic_error("sync is not left zero");
  }
  return {};
}

fovea::Backend emulated_table() {
  fovea::Backend table = cpu::backend();
  table.attention = attention;
  table.kv_append = kv_append;
  table.merge_states = merge_states;
  return table;
}

}  // namespace
}  // namespace fovea::emulated_backend

void emulated::replace_operations(fovea_context* context) {
  static const fovea::Backend table = fovea::emulated_backend::emulated_table();
  context->backend = &table;
}

void emulated::choose_kernel(const char* name) {
  fovea::emulated_backend::chosen = name;
}

int emulated::attention_launches() {
  return fovea::emulated_backend::launches;
}
