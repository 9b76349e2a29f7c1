// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch, SM90 on: a kernel launched early (LaunchShape::early) starts before the one ahead of
// it in the stream has ended. Without an early launch both are no-operations. PTX ISA 9.7.13 (griddepcontrol).
#pragma once

namespace fovea::ptx {

// Blocks until the grids ahead have ended and what they wrote is visible. Before it, only what no kernel ahead writes
// may be read, and nothing may be written that one ahead reads.
__device__ inline void wait_for_grids_ahead() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// The next grid may start once every block of this one has said so or has ended. It promises nothing of memory.
__device__ inline void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace fovea::ptx
