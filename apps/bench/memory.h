// SPDX-License-Identifier: Apache-2.0
// Where the operands of a benchmark live: the memory of this process or of a device.
#pragma once

#include <cstdint>

namespace fovea::bench {

class Memory {
 public:
  virtual ~Memory() = default;
  virtual int32_t device_type() const = 0;  // fovea_device_type
  virtual int32_t device_id() const = 0;
  virtual uint64_t size() const = 0;           // bytes there are; a case may take half of them
  virtual const char* owner() const = 0;       // "this machine": in messages
  virtual void* stream() const = 0;            // that calls are made on; null on the CPU
  virtual bool host_writes() const = 0;        // whether this process may use its pointers
  virtual void* allocate(uint64_t bytes) = 0;  // at least 64-byte aligned; throws where there is too little
  virtual void release(void* memory) noexcept = 0;
  virtual void write(void* to, const void* from, uint64_t bytes) = 0;
  virtual void read(void* to, const void* from, uint64_t bytes) = 0;
  virtual void zero(void* memory, uint64_t bytes) = 0;
  // Fills [block, bytes) with copies of [0, block).
  virtual void repeat(void* memory, uint64_t block, uint64_t bytes) = 0;
};

Memory& host_memory();

}  // namespace fovea::bench
