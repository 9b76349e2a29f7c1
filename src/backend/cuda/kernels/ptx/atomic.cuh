// SPDX-License-Identifier: Apache-2.0
// Counters by which blocks of a launch hand results to each other.
#pragma once

namespace fovea::ptx {

// Adds to a counter in memory and returns what it held. For one thread, between two barriers of its block: what the
// block wrote before is there for any block whose own addition comes later. SM70 on. PTX ISA 9.7.13 (atom), 8 (memory
// model).
__device__ inline unsigned add_acquire_release(unsigned* counter, unsigned x) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(x) : "memory");
  return before;
}

}  // namespace fovea::ptx
