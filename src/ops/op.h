// SPDX-License-Identifier: Apache-2.0
// What every operation offers the api layer. For an operation `foo`, ops/foo.h declares
//
//   struct FooOp {
//     using Params = fovea_foo_params;  using Spec = FooSpec;  using Plan = FooPlan;  using Args = FooArgs;
//     static Status check(const Params&, const Caps&, Spec&);  // every check that needs no tensor memory
//     static Status fits(const Spec& planned, const Spec& now);  // may a plan made for one run the other?
//     static Status bind(const Params&, const Spec&, Args&);     // null pointers; fills the kernel's block
//   };
//
// and plan/foo.h declares make_plan(spec, caps, plan) and explain(plan). The api layer does the rest.
#pragma once

#include "base/status.h"
#include "base/struct_size.h"
#include "base/tensor.h"
#include "ops/view.h"
#include "plan/caps.h"

namespace fovea {

inline Place place(const Caps& caps) {
  return {caps.device_type, caps.device_id};
}

// For fits(): a size that may shrink between planning and running, or one that must stay.
inline Status at_most_planned(const char* name, int64_t now, int64_t planned) {
  if (now <= planned) return {};
  return invalid_value(name, now, "the plan was made for at most " + std::to_string(planned));
}
inline Status as_planned(const char* name, int64_t now, int64_t planned) {
  if (now == planned) return {};
  return invalid_value(name, now, "the plan was made for " + std::to_string(planned));
}
inline Status other_than_planned(const char* op) {
  return {FOVEA_INVALID_VALUE, std::string(op) + ": an option, type or shape is not the one the plan was made for"};
}

}  // namespace fovea
