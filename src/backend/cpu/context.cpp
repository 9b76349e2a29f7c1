// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/context.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "backend/cpu/kernels/attention_amx.h"

namespace fovea::cpu {

namespace {

// Compiled instruction sets that this machine can run; a lower bit is a better one.
int64_t usable_targets() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets ? targets : HWY_STATIC_TARGET;
}

int64_t lowest_bit(int64_t bits) {
  return bits & -bits;
}

std::string target_names() {
  std::string names;
  for (int64_t rest = usable_targets(); rest != 0; rest &= rest - 1) {
    names += (names.empty() ? "" : " ") + std::string(hwy::TargetName(lowest_bit(rest)));
  }
  return names;
}

Status choose_isa(const char* wanted, Isa& isa) {
  if (wanted == nullptr) {
    isa.use(lowest_bit(usable_targets()));
    return {};
  }
  for (int64_t rest = usable_targets(); rest != 0; rest &= rest - 1) {
    if (std::string(wanted) == hwy::TargetName(lowest_bit(rest))) {
      isa.use(lowest_bit(rest));
      return {};
    }
  }
  return invalid_value("isa", std::string("\"") + wanted + "\"", "this binary on this machine has " + target_names());
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

int32_t vector_bytes(int64_t target) {
#if HWY_ARCH_X86
  if (target == HWY_AVX3) return 64;
  if (target == HWY_AVX2) return 32;
#endif
  static_cast<void>(target);
  return 16;
}

// AMX belongs to the best instruction set: who asks for a lesser one gets no more than that.
bool may_use_amx(int64_t target) {
#if HWY_ARCH_X86
  return target <= HWY_AVX3 && amx_usable();
#else
  static_cast<void>(target);
  return false;
#endif
}

// Options of backends that compile their kernels.
Status check_no_kernel_options(const fovea_context_params& params) {
  if (params.compile != 0) return invalid_value("compile", params.compile, "must be 0 on the CPU");
  if (params.compile_threads != 0) {
    return invalid_value("compile_threads", params.compile_threads, "must be 0 on the CPU");
  }
  const std::pair<const char*, const char*> texts[] = {
      {"bundle", params.bundle}, {"cache_dir", params.cache_dir}, {"nvrtc", params.nvrtc}, {"arch", params.arch}};
  for (const auto& [name, text] : texts) {
    if (text != nullptr) return invalid_value(name, std::string("\"") + text + "\"", "must be null on the CPU");
  }
  return {};
}

Status create(const fovea_context_params& params, std::unique_ptr<BackendContext>& out) {
  FOVEA_TRY(check_no_kernel_options(params));
  if (params.device_id != 0) return invalid_value("device_id", params.device_id, "the CPU has only device 0");
  if (params.threads < 0 || params.threads > 4096) return invalid_value("threads", params.threads, "must be 0 to 4096");
  auto context = std::make_unique<CpuContext>();
  FOVEA_TRY(choose_isa(params.isa, context->isa));
  if (params.pool != nullptr) {
    if (params.threads != 0) return invalid_value("threads", params.threads, "must be 0 where pool is given");
    if (params.pool->count == nullptr || params.pool->run == nullptr) {
      return invalid_value("pool", "incomplete", "count and run must not be null");
    }
    const int32_t count = params.pool->count(params.pool->self);
    if (count < 1) return invalid_value("pool.count", count, "must be at least 1 thread");
    context->pool = *params.pool;
  } else {
    const int32_t threads = params.threads ? params.threads : ThreadPool::cores();
    try {
      context->own_pool = std::make_unique<ThreadPool>(threads);
    } catch (const std::system_error& error) {
      return {FOVEA_OUT_OF_MEMORY,
              "threads is " + std::to_string(threads) + ": cannot start them (" + error.what() + ")"};
    }
    context->pool = context->own_pool->hook();
  }
  const int64_t target = context->isa.target;
  context->caps = {.device_type = FOVEA_CPU,
                   .device_id = 0,
                   .vector_bytes = vector_bytes(target),
                   .amx = may_use_amx(target) ? 1 : 0};
  out = std::move(context);
  return {};
}

}  // namespace

void CpuContext::describe(fovea_device_info& info) const {
  info.device_type = FOVEA_CPU;
  info.device_id = 0;
  info.threads = pool.count(pool.self);
  std::snprintf(info.name, sizeof info.name, "%s", processor_name().c_str());
  std::snprintf(info.isa, sizeof info.isa, "%s", hwy::TargetName(isa.target));
  std::snprintf(info.isa_compiled, sizeof info.isa_compiled, "%s", target_names().c_str());
}

Status report(const fovea_exec& exec, Status status) {
  if (exec.flags & FOVEA_EXEC_CHECK) return status;
  if (exec.status != nullptr) {
    uint32_t none = FOVEA_OK;
    std::atomic_ref(*exec.status).compare_exchange_strong(none, static_cast<uint32_t>(status.code()));
  }
  return {};
}

const Backend& backend() {
  static constexpr Backend kBackend = {
      .name = "cpu",
      .device_type = FOVEA_CPU,
      .create = create,
#define FOVEA_OP(name_, Name, NAME, value, text) .name_ = cpu::name_,
#include "fovea/operations.def"
#undef FOVEA_OP
  };
  return kBackend;
}

}  // namespace fovea::cpu
