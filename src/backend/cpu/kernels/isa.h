// SPDX-License-Identifier: Apache-2.0
// Which of the compiled instruction sets a context uses. Kernels are called as
//   FOVEA_CPU_KERNEL(isa, Foo)(args...)
// in the file that says HWY_EXPORT(Foo).
#pragma once

#include <hwy/targets.h>

namespace fovea::cpu {

struct Isa {
  Isa() = default;
  Isa(const Isa& other) { use(other.target); }
  Isa& operator=(const Isa& other) {
    use(other.target);
    return *this;
  }
  void use(int64_t highway_target) {
    target = highway_target;
    chosen.Update(highway_target);
  }
  int64_t target = 0;
  hwy::ChosenTarget chosen;
};

}  // namespace fovea::cpu

#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define FOVEA_CPU_KERNEL(isa, Function) (static_cast<void>(isa), HWY_DISPATCH_TABLE(Function)[0])
#else
#define FOVEA_CPU_KERNEL(isa, Function) HWY_DISPATCH_TABLE(Function)[(isa).chosen.GetIndex()]
#endif
