// SPDX-License-Identifier: Apache-2.0
#include "plan/catalogue.h"

#include <algorithm>

#include "plan/kv_append.h"
#include "plan/merge_states.h"

namespace fovea {

namespace {

// Adds an operation's kernels for one architecture.
using Rows = void (*)(const CudaArch& arch, std::vector<KernelRequest>& out);

void selftest_rows(const CudaArch& arch, std::vector<KernelRequest>& out) {
  for (const int32_t block : {128, 256}) out.push_back(selftest_kernel(arch, block));
}

void merge_states_rows(const CudaArch& arch, std::vector<KernelRequest>& out) {
  for (const int capacity : {kFewParts, kMaxParts}) out.push_back(merge_states_kernel(arch, capacity));
}

void kv_append_rows(const CudaArch& arch, std::vector<KernelRequest>& out) {
  for (const int units : {1, 2}) out.push_back(kv_append_kernel(arch, 8, units));
  out.push_back(kv_append_kernel(arch, 1, 16));
}

constexpr Rows kRows[] = {selftest_rows, merge_states_rows, kv_append_rows};

}  // namespace

KernelRequest selftest_kernel(const CudaArch& arch, int32_t block) {
  return {
      .file = "backend/cuda/kernels/selftest.cuh", .entry = "selftest", .constants = {{"block", block}}, .arch = arch};
}

std::vector<KernelRequest> catalogue(const CudaArch& arch) {
  std::vector<KernelRequest> all, unique;
  for (const Rows rows : kRows) rows(arch, all);
  for (KernelRequest& request : all) {
    if (std::find(unique.begin(), unique.end(), request) == unique.end()) unique.push_back(std::move(request));
  }
  return unique;
}

std::vector<KernelRequest> sample(const std::vector<KernelRequest>& kernels) {
  std::vector<KernelRequest> chosen;
  for (const KernelRequest& kernel : kernels) {
    const auto is_like = [&](const KernelRequest& other) {
      return other.file == kernel.file && other.entry == kernel.entry;
    };
    if (std::none_of(chosen.begin(), chosen.end(), is_like)) chosen.push_back(kernel);
  }
  return chosen;
}

}  // namespace fovea
