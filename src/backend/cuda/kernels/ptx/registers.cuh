// SPDX-License-Identifier: Apache-2.0
// Moving registers between the warpgroups of a block, on sm_90a and the family targets of Blackwell. PTX ISA 9.7.19.5
// (setmaxnreg).
//
// All warps of a warpgroup execute it, the count is a multiple of 8 from 24 to 256, and the kernel has
// __launch_bounds__, from which the compiler takes how many registers a thread starts with. What is given up goes to a
// pool of the block, and an increase waits until the pool holds enough: the counts of all warpgroups together must not
// exceed what the block started with, or it waits for ever. With 384 threads a thread starts with 168: 3 x 168 = 40 + 2
// x 232.
#pragma once

namespace fovea::ptx {

template <int count>
__device__ inline void registers_up_to() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void registers_down_to() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace fovea::ptx
