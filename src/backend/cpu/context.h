// SPDX-License-Identifier: Apache-2.0
// The CPU backend's state: threads and the instruction set in use.
#pragma once

#include <memory>

#include "backend/cpu/kernels/isa.h"
#include "backend/cpu/thread_pool.h"
#include "ops/backend.h"

namespace fovea::cpu {

struct CpuContext final : BackendContext {
  void describe(fovea_device_info& info) const override;
  // Runs body(i) for i in [0, n) on the pool. Bodies must not throw.
  template <class Body>
  void parallel_for(int64_t n, const Body& body) const {
    if (n <= 0) return;
    if (n == 1) return body(int64_t{0});
    pool.run(
        pool.self, [](void* arg, int64_t i) { (*static_cast<const Body*>(arg))(i); },
        const_cast<void*>(static_cast<const void*>(&body)), n);
  }

  Isa isa;
  fovea_thread_pool pool;
  std::unique_ptr<ThreadPool> own_pool;
};

inline CpuContext& cpu(BackendContext& context) {
  return static_cast<CpuContext&>(context);
}

// A bad value that only the memory shows: an error where the caller asked for checks, else the sticky status word.
Status report(const fovea_exec& exec, Status status);

const Backend& backend();

// backend/cpu/<op>.cpp
#define FOVEA_OP(name, Name, NAME, value, text) \
  Status name(BackendContext&, const Name##Plan&, const Name##Args&, const fovea_exec&);
#include "fovea/operations.def"
#undef FOVEA_OP

}  // namespace fovea::cpu
