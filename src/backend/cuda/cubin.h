// SPDX-License-Identifier: Apache-2.0
// What a compiled kernel needs of a multiprocessor, read from its ELF file: no device and no compiler is asked.
#pragma once

#include <string>

#include "base/status.h"
#include "plan/cuda_arch.h"

namespace fovea::cuda {

struct Resources {
  int registers = 0;    // per thread
  int local_bytes = 0;  // per thread: spills and arrays
  int smem_bytes = 0;   // static, of a block
  int max_threads = 0;  // of a block, as its __launch_bounds__ say
};

// INTERNAL where the file is no cubin with that entry.
Status read_resources(const std::string& cubin, const std::string& entry, const CudaArch& arch, Resources& out);

// Bytes that a thread of the entry spills and loads again, by the log of its compilation; -1 where the log has none.
// Part of local_bytes, which holds arrays as well.
int spill_bytes(const std::string& log, const std::string& entry);

}  // namespace fovea::cuda
