// SPDX-License-Identifier: Apache-2.0
// A device that tests run on: memory of its own and a side stream. Copies and fills are ordered by the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace fovea::test {

class TestDevice {
 public:
  virtual ~TestDevice() = default;
  int32_t type() const { return type_; }  // fovea_device_type
  int32_t id() const { return id_; }
  void* stream() const { return stream_; }  // non-blocking; null on the CPU

  virtual std::byte* allocate(size_t bytes) = 0;  // aligned to 256 bytes; null where there is no room
  virtual void release(std::byte* memory) = 0;    // of allocate
  virtual std::byte* allocate_zeroed(size_t bytes) = 0;
  virtual void write(std::byte* device, const std::byte* host, size_t bytes) = 0;
  virtual void read(std::byte* host, const std::byte* device, size_t bytes) = 0;  // after all that was launched
  virtual void fill(std::byte* device, uint8_t byte, size_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;  // on the device, without waiting
  virtual void delay() = 0;  // the stream does nothing of use for some milliseconds; the host goes on
  // Waits for the stream. Empty, or the first error that the device has reported; it never comes back from one.
  virtual std::string finish() = 0;

  virtual void* new_stream() = 0;  // for the life of the process
  virtual void wait(void* stream) = 0;
  // What `body` launches on the stream, to be replayed by the number that is returned; below 0 where the capture was
  // spoilt, and finish() says why.
  virtual int capture(void* stream, const std::function<void()>& body) = 0;
  virtual void replay(int graph, void* stream) = 0;

 protected:
  int32_t type_ = 0;
  int32_t id_ = 0;
  void* stream_ = nullptr;
};

// A device in host memory, whose kernels are the CPU's: it proves the mirror where there is no card.
std::unique_ptr<TestDevice> host_device();

// FOVEA_TEST_DEVICE=separate: an exact allocation of its own for each allocation of the host, so that
// compute-sanitizer sees every access out of bounds; otherwise one arena with poisoned zones between them.
bool separate_allocations();

}  // namespace fovea::test
