// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/context.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "backend/cuda/cubin.h"
#include "backend/cuda/on_threads.h"
#include "backend/cuda/operations.h"
#include "plan/catalogue.h"

namespace fovea::cuda {

namespace {

Status check_params(const fovea_context_params& params) {
  if (params.threads != 0) return invalid_value("threads", params.threads, "must be 0 on CUDA");
  if (params.pool != nullptr) return invalid_value("pool", "given", "must be null on CUDA");
  if (params.isa != nullptr) return invalid_value("isa", std::string("\"") + params.isa + "\"", "must be null on CUDA");
  if (params.compile < FOVEA_COMPILE_NEVER || params.compile > FOVEA_COMPILE_WARM) {
    return invalid_value("compile", params.compile,
                         "must be FOVEA_COMPILE_NEVER, FOVEA_COMPILE_ALLOWED or FOVEA_COMPILE_WARM");
  }
  if (params.compile_threads < 0) {
    return invalid_value("compile_threads", params.compile_threads, "must not be negative");
  }
  if (params.compile_threads != 0 && params.compile != FOVEA_COMPILE_WARM) {
    return invalid_value("compile_threads", params.compile_threads, "only FOVEA_COMPILE_WARM has it");
  }
  if (params.arch != nullptr && params.device_id != 0) {
    return invalid_value("device_id", params.device_id, "must be 0 where arch is given: no device is used");
  }
  return {};
}

template <size_t N>
void copy(char (&out)[N], const std::string& text) {
  std::snprintf(out, N, "%s", text.c_str());
}

}  // namespace

Status CudaContext::create(const fovea_context_params& params, std::unique_ptr<BackendContext>& out) {
  FOVEA_TRY(check_params(params));
  auto context = std::make_unique<CudaContext>();
  int max_major = Nvrtc::kNewestMajor;
  if (params.arch != nullptr) {
    const CudaArchRow* row = find_cuda_arch(params.arch);
    if (row == nullptr) {
      return invalid_value("arch", std::string("\"") + params.arch + "\"", "must be one of " + cuda_arch_names());
    }
    context->caps = caps_of(*row);
  } else {
    FOVEA_TRY(context->open_device(params));
    max_major = context->driver_->version() / 1000;
  }
  const StoreOptions options{.arch = context->caps.arch,
                             .max_major = max_major,
                             .nvrtc = params.nvrtc ? params.nvrtc : "",
                             .bundle = params.bundle,
                             .cache_dir = params.cache_dir};
  FOVEA_TRY(KernelStore::open(options, context->store_));
  context->may_compile_ = params.compile != FOVEA_COMPILE_NEVER;
  if (params.compile == FOVEA_COMPILE_WARM) FOVEA_TRY(context->warm(params.compile_threads));
  out = std::move(context);
  return {};
}

Status CudaContext::open_device(const fovea_context_params& params) {
  FOVEA_TRY(Driver::instance(driver_));
  FOVEA_TRY(find_device(*driver_, params.device_id, facts_));
  const CudaArchRow* row = find_cuda_arch(facts_.compute_capability);
  if (row == nullptr) {
    return unsupported("device " + std::to_string(params.device_id) + " (" + facts_.name + ") has compute capability " +
                       std::to_string(facts_.compute_capability / 10) + "." +
                       std::to_string(facts_.compute_capability % 10) + ": kernels are made for " + cuda_arch_names());
  }
  caps = {.device_type = FOVEA_CUDA,
          .device_id = params.device_id,
          .l2_bytes = facts_.l2_bytes,
          .compute_capability = facts_.compute_capability,
          .sm_count = facts_.sm_count,
          .smem_bytes = facts_.smem_bytes,
          .arch = row->arch};
  return PrimaryContext::retain(*driver_, facts_.device, primary_);
}

// Everything that can be compiled ahead is, and from then on nothing is.
Status CudaContext::warm(int threads) {
  const std::vector<KernelRequest> requests = catalogue(caps.arch);
  Status status = on_threads(requests.size(), threads, [&](size_t i) {
    const Kernel* ignored = nullptr;
    return kernel(requests[i], {}, ignored);
  });
  may_compile_ = false;
  return status;
}

CudaContext::~CudaContext() {
  if (!has_device()) return;
  const ScopedContext scope(*primary_);
  if (!scope.status().ok()) return;  // the driver has shut down already and took the modules with it
  for (const auto& [key, slot] : slots_) {
    if (slot->kernel != nullptr) static_cast<void>(driver_->api().module_unload(slot->kernel->module));
  }
}

Status CudaContext::load(std::vector<KernelUse>& kernels, const LoadScope& scope) {
  for (KernelUse& use : kernels) {
    const Kernel* ready = nullptr;
    FOVEA_TRY(kernel(use.request, scope, ready));
    use.loaded = ready;
  }
  return {};
}

Status CudaContext::kernel(const KernelRequest& request, const LoadScope& scope, const Kernel*& out) {
  KernelSource source;
  FOVEA_TRY(make_kernel_source(Sources::instance(), request, source));
  return kernel(request, source, scope, out);
}

Status CudaContext::kernel(const KernelRequest& request, const KernelSource& source, const LoadScope& scope,
                           const Kernel*& out) {
  Slot* slot = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Slot>& place = slots_[source.key];
    if (place == nullptr) place = std::make_unique<Slot>();
    slot = place.get();
  }
  const std::lock_guard lock(slot->mutex);
  if (slot->kernel == nullptr) {
    if (scope.stream != nullptr && has_device()) {
      const ScopedContext current(*primary_);
      FOVEA_TRY(current.status());
      bool capturing = false;
      FOVEA_TRY(is_capturing(*driver_, static_cast<Stream>(scope.stream), capturing));
      if (capturing) {
        return invalid_value("exec.stream", "capturing",
                             "kernel " + source.name +
                                 " is not loaded yet; make the plan before the capture, or "
                                 "call the operation once");
      }
    }
    const auto start = std::chrono::steady_clock::now();
    Code code;
    FOVEA_TRY(store_->fetch(source, may_compile_ && !scope.query, code));
    if (scope.query) return {};
    std::unique_ptr<Kernel> made;
    FOVEA_TRY(make_ready(request, source, std::move(code), made));
    made->milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    slot->kernel = std::move(made);
  }
  out = slot->kernel.get();
  return {};
}

Status CudaContext::make_ready(const KernelRequest& request, const KernelSource& source, Code code,
                               std::unique_ptr<Kernel>& out) {
  auto made = std::make_unique<Kernel>();
  made->name = fovea::name(request);
  made->key = source.key;
  made->origin = code.origin;
  made->version = code.version;
  made->bytes = code.cubin.size();
  if (has_device()) {
    const Status status = load_module(request, code.cubin, *made);
    if (!status.ok()) return {status.code(), "loading " + source.name + ": " + status.message()};
  } else {
    Resources used;
    FOVEA_TRY(read_resources(code.cubin, std::string(request.entry), request.arch, used));
    made->registers = used.registers;
    made->local_bytes = used.local_bytes;
    made->static_smem = used.smem_bytes;
    made->max_threads = used.max_threads;
    made->dynamic_smem = caps.smem_bytes - used.smem_bytes;
    made->cubin = std::move(code.cubin);
  }
  out = std::move(made);
  return {};
}

Status CudaContext::load_module(const KernelRequest& request, const std::string& cubin, Kernel& kernel) {
  const DriverApi& api = driver_->api();
  const ScopedContext scope(*primary_);
  FOVEA_TRY(scope.status());
  const RelaxedCapture relaxed(*driver_);
  FOVEA_TRY(driver_->call(api.module_load_data, &kernel.module, static_cast<const void*>(cubin.data())));
  const auto rest = [&]() -> Status {
    FOVEA_TRY(
        driver_->call(api.module_get_function, &kernel.function, kernel.module, std::string(request.entry).c_str()));
    // Asking for attributes also makes a driver that loads lazily load now, and not in the first launch.
    const std::pair<int, int*> wanted[] = {{function_attribute::registers, &kernel.registers},
                                           {function_attribute::local_bytes, &kernel.local_bytes},
                                           {function_attribute::static_smem, &kernel.static_smem},
                                           {function_attribute::max_threads, &kernel.max_threads}};
    for (const auto& [attribute, value] : wanted) {
      FOVEA_TRY(driver_->call(api.func_get_attribute, value, attribute, kernel.function));
    }
    kernel.dynamic_smem = caps.smem_bytes - kernel.static_smem;
    return driver_->call(api.func_set_attribute, kernel.function, function_attribute::max_dynamic_smem,
                         kernel.dynamic_smem);
  };
  Status status = rest();
  if (!status.ok()) static_cast<void>(api.module_unload(kernel.module));
  return status;
}

std::vector<const Kernel*> CudaContext::ready() const {
  std::vector<Slot*> slots;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, slot] : slots_) slots.push_back(slot.get());
  }
  std::vector<const Kernel*> kernels;
  for (Slot* slot : slots) {
    const std::lock_guard lock(slot->mutex);
    if (slot->kernel != nullptr) kernels.push_back(slot->kernel.get());
  }
  std::sort(kernels.begin(), kernels.end(), [](const Kernel* a, const Kernel* b) { return a->name < b->name; });
  return kernels;
}

void CudaContext::describe(fovea_device_info& info) const {
  info.device_type = FOVEA_CUDA;
  info.device_id = caps.device_id;
  copy(info.name, has_device() ? facts_.name : "no device");
  copy(info.isa, "sm_" + fovea::name(caps.arch));
  info.compute_capability = facts_.compute_capability;
  info.sm_count = caps.sm_count;
  info.smem_bytes = caps.smem_bytes;
  info.l2_bytes = caps.l2_bytes;
  info.memory_bytes = facts_.memory_bytes;
  info.kernels_loaded = static_cast<int32_t>(ready().size());
  info.kernels_compiled = store_->compiled();
  if (has_device()) copy(info.driver, name(NvrtcVersion{driver_->version() / 1000, driver_->version() % 1000 / 10}));
  copy(info.nvrtc, store_->describe_nvrtc());
  copy(info.bundle, store_->describe_bundle());
  copy(info.cache, store_->describe_cache());
}

std::string CudaContext::list_kernels() const {
  std::string text;
  for (const Kernel* kernel : ready()) {
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, " %s %llu bytes, %d registers, %d local, %d shared, %.1f ms\n",
                  name(kernel->origin), static_cast<unsigned long long>(kernel->bytes), kernel->registers,
                  kernel->local_bytes, kernel->static_smem, kernel->milliseconds);
    text += hex(kernel->key) + " " + kernel->name + numbers;
  }
  return text;
}

Status CudaContext::save_kernels(const std::string& path) const {
  if (has_device()) return unsupported("only a context made with arch keeps the code of its kernels");
  NvrtcVersion newest;
  std::vector<BundleKernel> kernels;
  for (const Kernel* kernel : ready()) {
    kernels.push_back({kernel->key, kernel->cubin, kernel->name});
    newest = std::max(newest, kernel->version);
  }
  if (kernels.empty()) return invalid_value("context", "without kernels", "make the plans that the bundle is for");
  return publish_file(path, bundle_bytes({.source_digest = Sources::instance().digest(), .arch = caps.arch}, newest,
                                         std::move(kernels)));
}

const Backend& backend() {
  static constexpr Backend kBackend = {.name = "cuda",
                                       .device_type = FOVEA_CUDA,
                                       .create = CudaContext::create,
                                       .attention = cuda::attention,
                                       .merge_states = cuda::merge_states,
                                       .kv_append = cuda::kv_append};
  return kBackend;
}

}  // namespace fovea::cuda
