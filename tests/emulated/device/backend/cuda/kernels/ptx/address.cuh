// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fovea::ptx {

// From the beginning of the block's memory.
inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(static_cast<const char*>(p) - simt::dynamic_memory);
}
inline char* shared_pointer(unsigned address) {
  if (address >= simt::kDynamicBytes) throw std::logic_error("a shared address beyond the block's memory");
  return simt::dynamic_memory + address;
}

inline void keep(unsigned) {}

}  // namespace fovea::ptx
