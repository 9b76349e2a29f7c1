// SPDX-License-Identifier: Apache-2.0
#include "support/backends.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "support/cuda_device.h"
#include "support/internals.h"
#include "support/tally.h"

namespace fovea::test {
namespace {

constexpr const char* kWithoutDevice = "not run: planned for an architecture without a device";

const char* setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

bool is(const char* name, std::string_view value) {
  const char* text = setting(name);
  return text != nullptr && text == value;
}

// Contexts live as long as the process: plans and the report refer to them.
const Context& keep(Context context) {
  static auto* const all = new std::deque<Context>;
  return all->emplace_back(std::move(context));
}

// The share of the kernels that this process compiles: every `of`-th, from `first`.
struct Share {
  size_t first = 0, of = 1;
};

Share compile_share() {
  Share share;
  if (const char* text = setting("FOVEA_TEST_COMPILE")) {
    if (std::sscanf(text, "%zu/%zu", &share.first, &share.of) != 2 || share.of == 0) {
      throw std::runtime_error("FOVEA_TEST_COMPILE must be I/N");
    }
  }
  return share;
}

// "kernel NAME for sm_90a is not compiled: .."
bool is_in_share(const std::string& not_compiled) {
  const size_t end = not_compiled.find(" for sm_");
  const Share share = compile_share();
  return std::hash<std::string>{}(not_compiled.substr(0, end)) % share.of == share.first;
}

ContextParams cuda_params() {
  ContextParams params;
  params.device_type = FOVEA_CUDA;
  params.compile = FOVEA_COMPILE_ALLOWED;
  params.bundle = setting("FOVEA_TEST_BUNDLE");
  params.cache_dir = setting("FOVEA_TEST_CACHE");
  return params;
}

// The context's own choice, then each family of attention's kernel table by force.
void add_cuda(std::vector<Backend>& all, const Context& context, TestDevice* device,
              const Context* compiler = nullptr) {
  const auto add = [&](const std::string& name, const char* kernel) {
    all.push_back({.name = name,
                   .context = context,
                   .device = device,
                   .kernel = kernel,
                   .cuda = true,
                   .without_device = device == nullptr,
                   .compiler = compiler});
  };
  add("cuda", nullptr);
  // A run may be cut into parts by family: their results add up.
  const char* only = setting("FOVEA_TEST_KERNELS");
  for (const char* kernel : attention_kernels(FOVEA_CUDA)) {
    if (only == nullptr || (std::string(",") + only + ",").find(std::string(",") + kernel + ",") != std::string::npos) {
      add(std::string("cuda ") + kernel, kernel);
    }
  }
  report_device(compiler != nullptr ? *compiler : context);
}

std::vector<Backend> devices() {
  std::vector<Backend> all;
  if (const char* arch = setting("FOVEA_TEST_ARCH")) {
    ContextParams params = cuda_params();
    params.arch = arch;
    const Context& whole = keep(Context(params));
    params.compile = FOVEA_COMPILE_NEVER;
    const bool shared = setting("FOVEA_TEST_COMPILE") != nullptr;
    add_cuda(all, shared ? keep(Context(params)) : whole, nullptr, shared ? &whole : nullptr);
  } else if (!is("FOVEA_TEST_CUDA", "0")) {
    std::string why_not;
    TestDevice* device = CudaDevice::instance(why_not);
    if (device != nullptr) add_cuda(all, keep(Context(cuda_params())), device);
    if (device == nullptr && is("FOVEA_TEST_CUDA", "1")) throw std::runtime_error("no CUDA device: " + why_not);
  }
  if (is("FOVEA_TEST_MIRROR", "1")) {
    static TestDevice* const host = host_device().release();
    all.push_back({.name = "mirrored cpu", .context = backends().front().context, .device = host});
  }
  return all;
}

// Runs `invoke` with the memory of the call where the backend has it.
using Invoke = std::function<fovea_status(const void* params, const Exec& exec)>;

Outcome outcome_of(fovea_status code) {
  Outcome outcome;
  static_cast<Result&>(outcome) = detail::result(code);
  return outcome;
}

Outcome refuse(const std::string& reason) {
  call_refused(reason);
  Outcome outcome;
  static_cast<Result&>(outcome) = {FOVEA_UNSUPPORTED, reason};
  outcome.refused = true;
  return outcome;
}

Outcome on_host(const void* params, WorkspaceBytes bytes, Exec exec, uint8_t scratch_fill,
                const TestPlan::Change& change, const Invoke& invoke) {
  const Guarded scratch(bytes.scratch, Place::end, scratch_fill);  // of any alignment
  const Guarded sync((bytes.sync + 7) / 8 * 8, Place::end, 0);
  exec.scratch = scratch.data();
  exec.scratch_bytes = bytes.scratch;
  exec.sync = sync.data();
  exec.sync_bytes = bytes.sync;
  if (change) change(exec);
  const Outcome outcome = outcome_of(invoke(params, exec));
  EXPECT_TRUE(sync.all(0)) << "sync is not left zero";
  return outcome;
}

Outcome on_device(const Backend& backend, int32_t op, const void* params, WorkspaceBytes bytes, const Exec& exec,
                  uint8_t scratch_fill, const TestPlan::Change& change, const Invoke& invoke) {
  if (const std::string lost = backend.device->finish(); !lost.empty()) {
    return refuse("not run: the device failed in an earlier call (" + lost + ")");
  }
  DeviceCall call(*backend.device, op, params, bytes, exec, scratch_fill, backend.kernel);
  EXPECT_EQ(call.mistake(), "");
  if (!call.enough_memory()) return refuse("not run: the memory of the device does not suffice");
  call.upload();
  Exec there = call.exec();
  if (change) change(there);
  const Outcome outcome = outcome_of(invoke(call.params(), there));
  for (const std::string& fault : call.download()) ADD_FAILURE() << backend.name << ": " << fault;
  if (!outcome && backend.cuda) call_rejected();
  return outcome;
}

Outcome with_memory(const Backend& backend, int32_t op, const void* params, WorkspaceBytes bytes, const Exec& exec,
                    uint8_t scratch_fill, const TestPlan::Change& change, const Invoke& invoke) {
  return backend.device == nullptr ? on_host(params, bytes, exec, scratch_fill, change, invoke)
                                   : on_device(backend, op, params, bytes, exec, scratch_fill, change, invoke);
}

void begin(const Backend& backend, int32_t op) {
  if (!backend.cuda) return begin_uncounted_call();
  begin_call(op, backend.kernel != nullptr ? backend.kernel : "chosen");
}

// What the library says to a call that it plans: a refusal of a CUDA backend is counted, anything else is the test's.
Outcome planned(const Backend& backend, fovea_status code) {
  Outcome outcome = outcome_of(code);
  if (!backend.cuda || outcome) return outcome;
  if (outcome.code == FOVEA_UNSUPPORTED) return refuse(outcome.message);
  call_rejected();
  return outcome;
}

// Null where the backend takes the host's own.
std::unique_ptr<CopiedParams> params_there(const Backend& backend, int32_t op, const void* params) {
  if (!backend.cuda && backend.device == nullptr) return nullptr;
  const int32_t type = backend.cuda ? static_cast<int32_t>(FOVEA_CUDA) : backend.device->type();
  const int32_t id = backend.device != nullptr ? backend.device->id() : 0;
  std::unique_ptr<CopiedParams> there = params_for(type, id, op, params, backend.kernel);
  if (there == nullptr) throw std::logic_error("tests/support/copied_params.cpp has no such operation");
  return there;
}

}  // namespace

Context cpu_context(int32_t threads, const char* isa) {
  ContextParams params;
  params.threads = threads;
  params.isa = isa;
  return Context(params);
}

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> found;
    std::istringstream names(cpu_context(1).info().isa_compiled);
    for (std::string isa; names >> isa;) {
      found.push_back({.name = "cpu " + isa, .context = keep(cpu_context(found.empty() ? 2 : 1, isa.c_str()))});
    }
    return found;
  }();
  return all;
}

bool serves(const Backend& backend, int32_t op) {
  return has_operation(backend.context.get(), op);
}

const std::vector<Backend>& backends(int32_t op) {
  static const std::vector<Backend> others = devices();
  static std::map<int32_t, std::vector<Backend>> by_op;
  const auto [at, fresh] = by_op.try_emplace(op);
  if (!fresh) return at->second;
  const int32_t ops_with_copies[] = {FOVEA_OP_ATTENTION, FOVEA_OP_MERGE_STATES, FOVEA_OP_KV_APPEND};
  const bool copied = std::count(std::begin(ops_with_copies), std::end(ops_with_copies), op) > 0;
  for (const Backend& b : others) {
    const bool family = b.kernel == nullptr || op == FOVEA_OP_ATTENTION;
    if (serves(b, op) && family && (b.cuda || copied)) at->second.push_back(b);
  }
  for (const Backend& b : backends()) at->second.push_back(b);
  return at->second;
}

TestPlan::TestPlan(const Backend& backend, int32_t op, const void* params)
    : backend_(backend), op_(op), plan_(nullptr, fovea_plan_destroy) {
  begin(backend, op);
  const std::unique_ptr<CopiedParams> there = params_there(backend, op, params);
  fovea_plan* raw = nullptr;
  const void* const here = there ? there->get() : params;
  fovea_status code = fovea_plan_create(backend.context.get(), op, here, &raw);
  if (code == FOVEA_NOT_COMPILED && backend.compiler != nullptr) {
    if (is_in_share(fovea_last_error())) code = fovea_plan_create(backend.compiler->get(), op, here, &raw);
    if (code == FOVEA_NOT_COMPILED) code = FOVEA_OK;  // another process does it
    if (code == FOVEA_OK) {
      fovea_plan_destroy(raw);
      outcome_ = refuse(kWithoutDevice);
      return;
    }
  }
  outcome_ = planned(backend, code);
  plan_.reset(raw);
  if (!outcome_) return;
  EXPECT_EQ(fovea_plan_workspace(raw, &bytes_.scratch, &bytes_.sync), FOVEA_OK);
}

fovea_status TestPlan::launch(const DeviceCall& call) const {
  begin_uncounted_call();
  return fovea_plan_run(plan_.get(), call.params(), &call.exec());
}

Outcome TestPlan::run_any(const void* params, const Exec& exec, uint8_t scratch_fill, const Change& change) const {
  begin(backend_, op_);
  call_ran();
  if (backend_.without_device) return refuse(kWithoutDevice);
  return with_memory(backend_, op_, params, bytes_, exec, scratch_fill, change,
                     [&](const void* p, const Exec& e) { return fovea_plan_run(plan_.get(), p, &e); });
}

std::string TestPlan::explain() const {
  uint64_t needed = 0;
  EXPECT_EQ(fovea_plan_explain(plan_.get(), nullptr, 0, &needed), FOVEA_OK);
  std::string text(needed, '\0');
  EXPECT_EQ(fovea_plan_explain(plan_.get(), text.data(), needed, nullptr), FOVEA_OK);
  text.resize(needed - 1);  // ends with a 0 of its own
  return text;
}

Support supports_any(const Backend& backend, int32_t op, const void* params) {
  const std::unique_ptr<CopiedParams> there = params_there(backend, op, params);
  const fovea_support answer = fovea_supports(backend.context.get(), op, there ? there->get() : params);
  return {answer, answer == FOVEA_SUPPORT_YES ? "" : fovea_last_error()};
}

Outcome call_any(const Backend& backend, int32_t op, const void* params, WorkspaceBytes bytes) {
  begin(backend, op);
  call_ran();
  if (backend.without_device) return refuse(kWithoutDevice);
  Outcome outcome = with_memory(backend, op, params, bytes, {}, kPoison, nullptr, [&](const void* p, const Exec& e) {
    return fovea_call(backend.context.get(), op, p, &e);
  });
  if (backend.cuda && outcome.code == FOVEA_UNSUPPORTED && !outcome.refused) return refuse(outcome.message);
  return outcome;
}

}  // namespace fovea::test
