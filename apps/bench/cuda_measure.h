// SPDX-License-Identifier: Apache-2.0
// Times of a case on a CUDA device, and what the device can do at most.
#pragma once

#include <functional>
#include <string>

#include "bench/cuda_device.h"
#include "bench/measure.h"

namespace fovea::bench {

// As measure(), by events of the device: a sample is as many calls as take at least 1 ms, and all samples are queued
// one behind the other. With `graph` > 0 the calls are replays of captured graphs of so many calls each, which together
// take every set in turn.
Timing measure_on(CudaDevice& device, Case& c, int64_t samples, int64_t graph,
                  const std::function<void(int64_t done)>& progress = {});

// Copies inside the device, and bf16 products by cuBLASLt: `cublaslt` is the library or a folder that holds it, empty
// where the loader finds it. Without it the products are not measured, and the roof says why.
Roof measure_cuda_roof(CudaDevice& device, const std::string& cublaslt);

}  // namespace fovea::bench
