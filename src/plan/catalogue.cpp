// SPDX-License-Identifier: Apache-2.0
#include "plan/catalogue.h"

#include <algorithm>
#include <iterator>

#include "plan/attention.h"
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

// The kernels that plans for models of common dims have, with a cache of the model's type or in fp8.
void attention_rows(const CudaArch& arch, std::vector<KernelRequest>& out) {
  const Caps caps = caps_of(*find_cuda_arch(name(arch)));
  AttentionSpec spec;
  spec.heads = 32;
  spec.group = 4;
  spec.batch = 64;
  spec.mask.kind = MaskKind::causal;
  KvSpec& kv = spec.kv[0];
  kv.heads = 8;
  kv.page_size = 16;
  kv.layout = KvLayout::paged;
  kv.has_kv_lens = 1;
  kv.max_len = 1 << 17;
  const auto add = [&](int64_t q_len, bool invariant) {
    spec.tokens = spec.batch * q_len;
    spec.max_q_len = q_len;
    spec.batch_invariant = invariant;
    AttentionPlan plan;
    // An architecture without a family has no rows.
    if (!make_plan(spec, caps, plan).ok()) return;
    for (KernelUse& use : plan.kernels) out.push_back(std::move(use.request));
  };
  for (const Dtype type : {Dtype::bf16, Dtype::f16}) {
    spec.q = spec.out = type;
    for (const bool narrow : {false, true}) {
      kv.k.codec = narrow ? Codec::fp8 : type == Dtype::bf16 ? Codec::bf16 : Codec::f16;
      kv.k.scale_kind = narrow ? ScaleKind::head : ScaleKind::none;
      kv.k.scale_dtype = narrow ? Dtype::f32 : Dtype::none;
      kv.v = kv.k;
      for (const int dims : {64, 128, 256}) {
        kv.d_k = kv.d_v = dims;
        for (const bool invariant : {false, true}) add(1, invariant);
        add(2048, false);
        if (narrow) continue;
        kv.layout = KvLayout::contiguous;  // new keys before they are cached
        add(2048, false);
        kv.layout = KvLayout::paged;
      }
    }
  }
  // e4m3 queries, and one kernel of each role of families that the card has a better one for: who forces them compiles
  // the rest.
  kv.d_k = kv.d_v = 128;
  spec.q = Dtype::e4m3;
  for (const int64_t q_len : {1, 2048}) add(q_len, false);
  spec.q = spec.out = Dtype::f16;
  kv.k.codec = kv.v.codec = Codec::f16;
  kv.k.scale_kind = kv.v.scale_kind = ScaleKind::none;
  kv.k.scale_dtype = kv.v.scale_dtype = Dtype::none;
  for (size_t i = 0; i < std::size(kAttentionKernels); ++i) {
    const AttentionKernel& kernel = kAttentionKernels[i];
    if (kernel.device_type != FOVEA_CUDA || kernel.e4m3 || kernel.role == AttentionRole::by_rows) continue;
    spec.kernel = static_cast<int>(i);
    add(kernel.role == AttentionRole::decode ? 1 : 2048, false);
  }
}

constexpr Rows kRows[] = {selftest_rows, attention_rows, merge_states_rows, kv_append_rows};

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
