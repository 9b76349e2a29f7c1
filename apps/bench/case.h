// SPDX-License-Identifier: Apache-2.0
// One thing to measure: an operation at one shape, planned once, over several sets of operands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/data.h"
#include "bench/shape.h"
#include "fovea/fovea.hpp"

namespace fovea::bench {

// What one call has to do, by the formulas of docs/bench.md: memory that it must read or write once, and arithmetic.
struct Work {
  double bytes = 0;
  double flops = 0;
};

class Case {
 public:
  virtual ~Case() = default;
  virtual void run(uint64_t set) = 0;  // set < sets()
  virtual std::string explain() const = 0;
  virtual void check() const = 0;  // throws app::Error where calls on a device found a fault in their data
  const Work& work() const { return work_; }
  uint64_t sets() const { return sets_; }
  uint64_t bytes() const { return bytes_; }              // of all sets
  double plan_seconds() const { return plan_seconds_; }  // of planning, which makes the kernels of a device ready

 protected:
  Work work_;
  uint64_t sets_ = 0;
  uint64_t bytes_ = 0;
  double plan_seconds_ = 0;
};

// So many sets that calls which take them in turn touch rotate_bytes before a set comes again; at least 2 and at most
// 4096, and no more than 8 * rotate_bytes of memory where 2 sets fit into that.
// `flags`: of each call's exec. `memory` is that of the context's device. Throws fovea::Error where the library refuses
// the shape, app::Error where options contradict or memory is short.
std::unique_ptr<Case> make_case(const Context& context, Memory& memory, int32_t op, const Shape& shape,
                                uint64_t rotate_bytes, uint64_t seed, uint32_t flags = 0);

// Whether the library takes the shape, by its own word; takes no memory.
Support supports(const Context& context, int32_t op, const Shape& shape);

// Plans the shape and lets go of the plan: a context's kernels for it are ready. Returns the explanation; throws as
// make_case does, but takes no memory.
std::string plan_case(const Context& context, int32_t op, const Shape& shape);

// cases/<op>: the operands of one call, and its work.
#define FOVEA_OP(name, Name, NAME, value, text)           \
  Name##Params name##_params(const Shape& s, Data& data); \
  Work name##_work(const Shape& s);
#include "fovea/operations.def"
#undef FOVEA_OP

}  // namespace fovea::bench
