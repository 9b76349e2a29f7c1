// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/address.cuh"

namespace fovea::ptx {

inline void copy_async(unsigned to, const void* from, int size, int bytes) {
  if (to % static_cast<unsigned>(size) != 0 || bytes < 0 || bytes > size) throw std::logic_error("cp.async");
  if (bytes > 0 && reinterpret_cast<u64_t>(from) % static_cast<unsigned>(size) != 0) throw std::logic_error("cp.async");
  simt::copy_later(shared_pointer(to), from, static_cast<unsigned>(size), static_cast<unsigned>(bytes));
}
inline void copy_async_4(unsigned to, const void* from, int bytes) {
  copy_async(to, from, 4, bytes);
}
inline void copy_async_8(unsigned to, const void* from, int bytes) {
  copy_async(to, from, 8, bytes);
}
inline void copy_async_16(unsigned to, const void* from, int bytes) {
  copy_async(to, from, 16, bytes);
}
inline void copy_async_commit() {
  simt::close_group();
}
template <int pending>
inline void copy_async_wait() {
  simt::wait_for_groups(pending);
}

}  // namespace fovea::ptx
