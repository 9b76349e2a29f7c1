// SPDX-License-Identifier: Apache-2.0
// What a machine can do at most. On the CPU: memory bandwidth and f32 multiply-adds, with the threads and the
// instruction set of a context; cuda_measure.h has that of a device.
#pragma once

#include <cstdint>
#include <string>

namespace fovea::bench {

struct Roof {
  double read_bytes_per_s = 0;                  // sums over memory; 0 on a device: not measured
  double copy_bytes_per_s = 0;                  // bytes read and bytes written
  double flops_per_s = 0;                       // a multiply-add counts two; 0: not measured
  std::string copy_text = {}, flops_text = {};  // of a device: how each was measured, or why not
  double bytes_per_s() const { return read_bytes_per_s > copy_bytes_per_s ? read_bytes_per_s : copy_bytes_per_s; }
};

// The best of several passes. `isa` is fovea_device_info.isa, `bytes` the memory that a pass walks over: that of the
// case it is compared with, so that the same caches help.
Roof measure_roof(int32_t threads, const std::string& isa, uint64_t bytes);

}  // namespace fovea::bench
