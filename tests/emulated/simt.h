// SPDX-License-Identifier: Apache-2.0
// A device of one multiprocessor in one thread of the host: kernel files compile as C++ and their blocks run one after
// the other, each thread of a block as a coroutine that is switched where threads meet (barriers, shuffles). It shows
// what a kernel computes, not how fast, and not its races.
#pragma once

#include <math.h>

#include <functional>

#pragma GCC visibility push(default)  // kernels that a test compiles find these here

namespace simt {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

inline Dim thread_idx, block_idx, block_dim, grid_dim;  // of the thread that runs

inline constexpr unsigned kDynamicBytes = 228 << 10;
alignas(128) inline char dynamic_memory[kDynamicBytes];  // shared by the threads of a block

// Runs the kernel for every block of the grid. Throws std::logic_error where threads wait for each other in vain.
void run(Dim grid, Dim block, const std::function<void()>& kernel);

// The running thread waits until all of `mask`'s lanes of its warp have come here as often as it has, and leaves 8
// bytes for them that `lane` may then read.
void meet(unsigned mask, const void* value, unsigned bytes);
void read(int lane, void* value, unsigned bytes);
void meet_block();
int this_lane();

// The whole warp comes together; the last lane to arrive runs `work` for all, with what each lane brought.
void work_together(void* mine, void (*work)(void* const (&lanes)[32]));

// The same value for all threads of the block: whether any of them brought one that is not zero.
int any_of_block(int value);

// A copy of the running thread that ends only when the thread waits for it: cp.async. `bytes` of `size` exist.
void copy_later(void* to, const void* from, unsigned size, unsigned bytes);
void close_group();
void wait_for_groups(unsigned pending);

template <class T>
T shuffle_xor(unsigned mask, T x, int step) {
  static_assert(sizeof(T) <= 8);
  meet(mask, &x, sizeof x);
  T other;
  read(this_lane() ^ step, &other, sizeof other);
  return other;
}

template <class T>
T exchange(T* p, T x) {
  const T old = *p;
  *p = x;
  return old;
}

}  // namespace simt
#pragma GCC visibility pop

// What kernel files name.
#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define threadIdx ::simt::thread_idx
#define blockIdx ::simt::block_idx
#define blockDim ::simt::block_dim
#define gridDim ::simt::grid_dim

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};

inline void __syncthreads() {
  simt::meet_block();
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
  simt::meet(mask, nullptr, 0);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int step) {
  return simt::shuffle_xor(mask, x, step);
}
template <class T>
T atomicAdd(T* p, T x) {
  return simt::exchange(p, static_cast<T>(*p + x));
}
template <class T>
T atomicMin(T* p, T x) {
  return simt::exchange(p, *p < x ? *p : x);
}
template <class T>
T atomicMax(T* p, T x) {
  return simt::exchange(p, *p > x ? *p : x);
}
template <class T>
T atomicCAS(T* p, T expected, T x) {
  return simt::exchange(p, *p == expected ? x : *p);
}
