// SPDX-License-Identifier: Apache-2.0
// What a kernel says of bad values that only the memory shows: the caller's sticky status word, and the report of a
// checked call (FOVEA_EXEC_CHECK).
#pragma once

#include "shared/check_report.h"

namespace fovea {

// The first code stays. `status` may be null.
inline void report_status(u32_t* status, StatusCode code) {
  if (status != nullptr) atomicCAS(status, 0u, static_cast<u32_t>(code));
}

// Keeps the lowest index, whatever the order of blocks. `report` may be null.
inline void report_first(CheckReport* report, int kind, i64_t index) {
  if (report != nullptr) atomicMin(&report->first[kind], static_cast<u64_t>(index));
}

inline void report_count(CheckReport* report, u64_t count) {
  if (report != nullptr) atomicAdd(&report->count, count);
}

}  // namespace fovea
