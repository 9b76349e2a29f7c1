// SPDX-License-Identifier: Apache-2.0
// The life of a call, the same for every operation: check, plan, bind, run.
#include <new>

#include "api/context.h"
#include "base/struct_size.h"
#include "fovea/fovea.h"

namespace fovea {

namespace {

template <class Op>
using Launch = Status (*)(BackendContext&, const typename Op::Plan&, const typename Op::Args&, const fovea_exec&);

Status check_workspace(const char* name, const void* memory, uint64_t bytes, uint64_t needed) {
  if (needed == 0) return {};
  if (bytes < needed) {
    return invalid_value(std::string("exec.") + name + "_bytes", static_cast<int64_t>(bytes),
                         "must be at least " + std::to_string(needed));
  }
  if (memory == nullptr) return invalid_value(std::string("exec.") + name, "null", "this plan needs the memory");
  return {};
}

Status check_flags(uint32_t flags, const Caps& caps) {
  if (flags == 0 || flags == FOVEA_EXEC_CHECK) return {};
  if (flags != FOVEA_EXEC_EARLY) {  // both: a checked call waits, so that nothing is left to start early
    return invalid_value("exec.flags", flags, "must be 0, FOVEA_EXEC_CHECK or FOVEA_EXEC_EARLY");
  }
  if (caps.device_type == FOVEA_CUDA && caps.compute_capability >= 90) return {};
  return invalid_value("exec.flags", "FOVEA_EXEC_EARLY", "needs a CUDA device of compute capability 9.0 or later");
}

Status check_exec(const fovea_exec& exec, const Workspace& needs, const Caps& caps) {
  FOVEA_TRY(check_struct("exec", &exec));
  FOVEA_TRY(check_flags(exec.flags, caps));
  if (caps.device_type == FOVEA_CPU && exec.stream != nullptr) {
    return invalid_value("exec.stream", "given", "must be null on the CPU");
  }
  FOVEA_TRY(check_workspace("scratch", exec.scratch, exec.scratch_bytes, needs.scratch));
  return check_workspace("sync", exec.sync, exec.sync_bytes, needs.sync);
}

template <class Op>
Status bind_and_run(Launch<Op> launch, BackendContext& state, const typename Op::Plan& plan,
                    const typename Op::Spec& spec, const typename Op::Params& params, const fovea_exec& exec) {
  FOVEA_TRY(check_exec(exec, plan.workspace, state.caps));
  typename Op::Args args;
  FOVEA_TRY(Op::bind(params, spec, args));
  return launch(state, plan, args, exec);
}

template <class Op>
struct PlanOf final : fovea_plan {
  Status run(const void* params, const fovea_exec& exec) const override {
    if (params == nullptr) return invalid_value("params", "null", "must point to its struct");
    const auto& p = *static_cast<const typename Op::Params*>(params);
    typename Op::Spec now;
    FOVEA_TRY(Op::check(p, state->caps, now));
    FOVEA_TRY(Op::fits(spec, now));
    return bind_and_run<Op>(launch, *state, plan, now, p, exec);
  }
  Workspace workspace() const override { return plan.workspace; }
  std::string explain() const override { return fovea::explain(plan); }

  std::shared_ptr<BackendContext> state;
  Launch<Op> launch = nullptr;
  typename Op::Spec spec;
  typename Op::Plan plan;
};

// The one place that decides whether an operation can run: supports, planning and calling all come here.
template <class Op>
Status prepare(const fovea_context& context, Launch<Op> launch, const void* params, const LoadScope& scope,
               typename Op::Spec& spec, typename Op::Plan& plan) {
  if (params == nullptr) return invalid_value("params", "null", "must point to its struct");
  if (launch == nullptr)
    return unsupported(std::string("the ") + context.backend->name + " backend has no such operation");
  FOVEA_TRY(Op::check(*static_cast<const typename Op::Params*>(params), context.state->caps, spec));
  FOVEA_TRY(make_plan(spec, context.state->caps, plan));
  if constexpr (requires { plan.kernels; }) return context.state->load(plan.kernels, scope);
  return {};
}

// Calls body with the operation's type and its launch function; `op` comes from the caller.
template <class Body>
Status with_op(const fovea_context* context, int32_t op, const Body& body) {
  if (context == nullptr) return invalid_value("context", "null", "must be a context");
  switch (op) {
#define FOVEA_OP(name_, Name, NAME, value, text) \
  case FOVEA_OP_##NAME:                          \
    return body(Name##Op{}, context->backend->name_);
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      return invalid_value("op", op, "must be one of enum fovea_op");
  }
}

Status check_support(const fovea_context* context, int32_t op, const void* params) {
  return with_op(context, op, [&](auto tag, auto launch) -> Status {
    using Op = decltype(tag);
    typename Op::Spec spec;
    typename Op::Plan plan;
    return prepare<Op>(*context, launch, params, {.query = true}, spec, plan);
  });
}

Status create_plan(const fovea_context* context, int32_t op, const void* params, fovea_plan** out) {
  if (out == nullptr) return invalid_value("out", "null", "must point to where the plan goes");
  return with_op(context, op, [&](auto tag, auto launch) -> Status {
    using Op = decltype(tag);
    auto made = std::make_unique<PlanOf<Op>>();
    FOVEA_TRY(prepare<Op>(*context, launch, params, {}, made->spec, made->plan));
    made->state = context->state;
    made->launch = launch;
    *out = made.release();
    return {};
  });
}

Status call(const fovea_context* context, int32_t op, const void* params, const fovea_exec* exec) {
  const fovea_exec none;
  return with_op(context, op, [&](auto tag, auto launch) -> Status {
    using Op = decltype(tag);
    typename Op::Spec spec;
    typename Op::Plan plan;
    FOVEA_TRY(prepare<Op>(*context, launch, params, {.stream = exec ? exec->stream : nullptr}, spec, plan));
    return bind_and_run<Op>(launch, *context->state, plan, spec, *static_cast<const typename Op::Params*>(params),
                            exec ? *exec : none);
  });
}

Status explain_plan(const fovea_plan* plan, char* text, uint64_t size, uint64_t* needed) {
  if (plan == nullptr) return invalid_value("plan", "null", "must be a plan");
  return copy_text(plan->explain(), text, size, needed);
}

}  // namespace
}  // namespace fovea

using fovea::guarded;
using fovea::Status;

extern "C" {

fovea_support fovea_supports(fovea_context* context, int32_t op, const void* params) {
  const fovea_status code = guarded([&] { return fovea::check_support(context, op, params); });
  if (code == FOVEA_NOT_COMPILED) return FOVEA_SUPPORT_AFTER_COMPILE;
  return code == FOVEA_OK ? FOVEA_SUPPORT_YES : FOVEA_SUPPORT_NO;
}

fovea_status fovea_plan_create(fovea_context* context, int32_t op, const void* params, fovea_plan** out) {
  return guarded([&] { return fovea::create_plan(context, op, params, out); });
}

void fovea_plan_destroy(fovea_plan* plan) {
  delete plan;
}

fovea_status fovea_plan_workspace(const fovea_plan* plan, uint64_t* scratch_bytes, uint64_t* sync_bytes) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return fovea::invalid_value("plan", "null", "must be a plan");
    const fovea::Workspace workspace = plan->workspace();
    if (scratch_bytes != nullptr) *scratch_bytes = workspace.scratch;
    if (sync_bytes != nullptr) *sync_bytes = workspace.sync;
    return {};
  });
}

fovea_status fovea_plan_explain(const fovea_plan* plan, char* text, uint64_t size, uint64_t* needed) {
  return guarded([&] { return fovea::explain_plan(plan, text, size, needed); });
}

fovea_status fovea_plan_run(const fovea_plan* plan, const void* params, const fovea_exec* exec) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return fovea::invalid_value("plan", "null", "must be a plan");
    const fovea_exec none;
    return plan->run(params, exec ? *exec : none);
  });
}

fovea_status fovea_call(fovea_context* context, int32_t op, const void* params, const fovea_exec* exec) {
  return guarded([&] { return fovea::call(context, op, params, exec); });
}

#define FOVEA_OP(name, Name, NAME, value, text)                                                                    \
  fovea_status fovea_##name(fovea_context* context, const fovea_##name##_params* params, const fovea_exec* exec) { \
    return fovea_call(context, FOVEA_OP_##NAME, params, exec);                                                     \
  }
#include "fovea/operations.def"
#undef FOVEA_OP

}  // extern "C"
