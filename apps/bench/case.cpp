// SPDX-License-Identifier: Apache-2.0
#include "bench/case.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/error.h"

namespace fovea::bench {

namespace {

constexpr uint64_t kMinSets = 2, kMaxSets = 4096;
constexpr uint64_t kMaxOverhead =
    8;  // memory of all sets over rotate_bytes: a windowed call touches little of its cache

template <class Params>
using Build = Params (*)(const Shape&, Data&);

std::string mib(uint64_t bytes) {
  return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB";
}

// Parameters without memory: what planning and the question for support need.
template <class Params>
struct Dry {
  Dry(Build<Params> build, const Shape& shape, int32_t device_type, int32_t device_id)
      : data(Data::sizes_on(device_type, device_id)), params(build(shape, data)) {
    first_bytes = data.bytes();
    data.begin_set();
    build(shape, data);
    next_bytes = data.bytes() - first_bytes;
  }
  Data data;
  Params params;
  uint64_t first_bytes = 0;  // of the first set, with what all sets share
  uint64_t next_bytes = 0;   // of each further one
};

template <class Params>
uint64_t count_sets(const Dry<Params>& dry, const Work& work, uint64_t rotate_bytes, const Memory& memory) {
  const uint64_t limit = memory.size() / 2;
  if (dry.first_bytes + dry.next_bytes > limit) {
    throw app::Error("this shape needs " + mib(dry.first_bytes + dry.next_bytes) + " of memory: at most " + mib(limit) +
                     ", half of that of " + memory.owner() + ", may be used");
  }
  const uint64_t roomy = std::min(limit, std::max(dry.first_bytes, kMaxOverhead * rotate_bytes));
  const double fit = 1 + static_cast<double>(roomy - std::min(roomy, dry.first_bytes)) /
                             static_cast<double>(std::max<uint64_t>(dry.next_bytes, 1));
  const double wanted = std::ceil(static_cast<double>(rotate_bytes) / std::max(work.bytes, 1.0));
  return static_cast<uint64_t>(std::clamp<double>(std::min(wanted, fit), kMinSets, kMaxSets));
}

template <class Params>
class CaseOf final : public Case {
 public:
  CaseOf(const Context& context, Memory& memory, Build<Params> build, const Shape& shape, Work work,
         uint64_t rotate_bytes, uint64_t seed, uint32_t flags)
      : CaseOf(context, memory, Dry<Params>(build, shape, memory.device_type(), memory.device_id()), build, shape, work,
               rotate_bytes, seed, flags) {}

  void run(uint64_t set) override { plan_.run(params_[set], exec_); }
  std::string explain() const override { return plan_.explain(); }
  void check() const override {
    if (exec_.status == nullptr) return;
    uint32_t status = FOVEA_OK;
    memory_.read(&status, exec_.status, sizeof status);
    if (status == FOVEA_OK) return;
    throw app::Error(std::string("the calls left ") + fovea_status_name(static_cast<int32_t>(status)) +
                     " in their status word");
  }

 private:
  CaseOf(const Context& context, Memory& memory, const Dry<Params>& dry, Build<Params> build, const Shape& shape,
         Work work, uint64_t rotate_bytes, uint64_t seed, uint32_t flags)
      : memory_(memory), plan_(timed_plan(context, dry.params)), data_(Data::kFilled, seed, memory) {
    work_ = work;
    sets_ = count_sets(dry, work, rotate_bytes, memory);
    for (uint64_t i = 0; i < sets_; ++i) {
      data_.begin_set();
      params_.push_back(build(shape, data_));
    }
    bytes_ = data_.bytes();
    exec_ = {.flags = flags,
             .stream = memory.stream(),
             .scratch = data_.workspace(plan_.scratch_bytes()),
             .scratch_bytes = plan_.scratch_bytes(),
             .sync = data_.workspace(plan_.sync_bytes()),
             .sync_bytes = plan_.sync_bytes()};
    if (!memory.host_writes()) exec_.status = static_cast<uint32_t*>(data_.workspace(sizeof(uint32_t)));
  }

  Plan<Params> timed_plan(const Context& context, const Params& params) {
    const auto start = std::chrono::steady_clock::now();
    Plan<Params> plan(context, params);
    plan_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return plan;
  }

  Memory& memory_;
  Plan<Params> plan_;
  Data data_;
  std::vector<Params> params_;
  Exec exec_;
};

// Calls body(build function, work) for the operation.
template <class Body>
auto with_op(int32_t op, const Shape& shape, const Body& body) {
  check_shape(op, shape);
  switch (op) {
#define FOVEA_OP(name, Name, NAME, value, text) \
  case FOVEA_OP_##NAME:                         \
    return body(&name##_params, name##_work(shape));
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      throw app::Error("no operation has the number " + std::to_string(op));
  }
}

}  // namespace

std::unique_ptr<Case> make_case(const Context& context, Memory& memory, int32_t op, const Shape& shape,
                                uint64_t rotate_bytes, uint64_t seed, uint32_t flags) {
  return with_op(op, shape, [&]<class Params>(Build<Params> build, Work work) -> std::unique_ptr<Case> {
    return std::make_unique<CaseOf<Params>>(context, memory, build, shape, work, rotate_bytes, seed, flags);
  });
}

Support supports(const Context& context, int32_t op, const Shape& shape) {
  const DeviceInfo info = context.info();
  return with_op(op, shape, [&]<class Params>(Build<Params> build, Work) {
    return context.supports(Dry<Params>(build, shape, info.device_type, info.device_id).params);
  });
}

std::string plan_case(const Context& context, int32_t op, const Shape& shape) {
  const DeviceInfo info = context.info();
  return with_op(op, shape, [&]<class Params>(Build<Params> build, Work) {
    const Dry<Params> dry(build, shape, info.device_type, info.device_id);
    return context.plan(dry.params).explain();
  });
}

}  // namespace fovea::bench
