// SPDX-License-Identifier: Apache-2.0
// The values of a row, which only memory shows: checks and reads. `r` counts rows of sample, requests of verify.
#pragma once

#include <atomic>

#include "backend/cpu/context.h"
#include "backend/cpu/kernels/sample.h"

namespace fovea::cpu {

// Everything but the bit mask. Of a greedy row filters, seed and position are not looked at.
Status check_row_values(const SampleArgs& args, int64_t r);
// Of a row of logits.
Status check_mask_row(const SampleArgs& args, int64_t row);
// "name[i] is value: allowed"
Status bad_value(const char* name, int64_t i, const std::string& value, const std::string& allowed);

// Checks what `check` answers for each i in [0, n), on the threads where that may be long; the error is that of the
// lowest i.
template <class Check>
Status check_all(const CpuContext& c, int64_t n, bool parallel, const Check& check) {
  if (!parallel || n < 2) {
    for (int64_t i = 0; i < n; ++i) FOVEA_TRY(check(i));
    return {};
  }
  std::atomic<int64_t> first{n};
  c.parallel_for(n, [&](int64_t i) {
    if (check(i).ok()) return;
    for (int64_t seen = first; i < seen && !first.compare_exchange_weak(seen, i);) {
    }
  });
  return first < n ? check(first) : Status();
}

float temperature_of(const SampleArgs& args, int64_t r);
SampleRule rule_of(const SampleArgs& args, int64_t r);                               // of one that draws
double uniform_of(const SampleArgs& args, int64_t r, int64_t offset, u32_t stream);  // at positions[r] + offset
SampleEdits edits_of(const SampleArgs& args, int64_t r, int64_t mask_row);

SampleWorkspace workspace_of(const fovea_exec& exec, int64_t task, const SampleSpec& spec);

// Row `row` of the logits with the edits of `r`, in to.logits; answers the highest. `path` as for edit_logits.
float load_row(const Isa& isa, const SampleArgs& args, int64_t row, int64_t r, const View& path, int64_t n_path,
               const SampleWorkspace& to);
// The fault of a row of which nothing is left.
const char* no_number(const SampleSpec& spec);

// Element of an output of type i32 or i64.
void put_index(const View& to, int64_t i, int64_t value);
void put_index(const View& to, int64_t i, int64_t j, int64_t value);

}  // namespace fovea::cpu
