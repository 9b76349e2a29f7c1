// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/blocks.h"
#include "backend/cuda/checked.h"
#include "backend/cuda/host_copy.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/operations.h"
#include "ops/attention_values.h"

namespace fovea::cuda {

namespace {

// The largest power of two, at most 16, that every one of some addresses and strides in bytes is a multiple of.
class Alignment {
 public:
  Alignment& address(const void* p) {
    bits_ |= reinterpret_cast<uintptr_t>(p);
    return *this;
  }
  Alignment& stride(int64_t bytes) {
    bits_ |= static_cast<uintptr_t>(bytes);
    return *this;
  }
  int bytes() const { return static_cast<int>(bits_ & (~bits_ + 1)); }

 private:
  uintptr_t bits_ = 16;
};

void add_rows(Alignment& a, const View& v) {
  a.address(v.data);
  for (int i = 0; i < 3; ++i) {
    if (v.shape[i] > 1) a.stride(v.stride[i] * v.block_bytes);
  }
}
void add_stream(Alignment& a, const KvStream& s) {
  a.address(s.base).stride(s.page_stride).stride(s.token_stride).stride(s.head_stride);
}

void find_alignment(const AttentionArgs& args, AttentionCudaArgs& g) {
  Alignment q, out, k, v, rope;
  add_rows(q, args.q);
  if (args.spec.kv[0].d_rope > 0) {
    q.stride(int64_t{args.spec.kv[0].d_k - args.spec.kv[0].d_rope} * args.q.block_bytes);
  }
  add_rows(out, args.out);
  for (int s = 0; s < args.spec.segments; ++s) {
    add_stream(k, args.kv[s].k);
    add_stream(v, args.kv[s].v);
    if (args.spec.kv[0].d_rope > 0) add_stream(rope, args.kv[s].k_rope);
  }
  g.q_align = q.bytes();
  g.out_align = out.bytes();
  g.k_align = k.bytes();
  g.v_align = v.bytes();
  g.rope_align = rope.bytes();
}

// What the CPU checks on every call: index values that some visible key needs.
Status check_values(const CudaContext& context, const AttentionArgs& args, void* stream) {
  AttentionArgs host = args;
  HostCopy copy(context, stream);
  FOVEA_TRY(copy.take(host.mask_bits));
  for (IndexView* v : {&host.cu_seqlens_q, &host.q_lens, &host.q_starts, &host.mask_lens}) FOVEA_TRY(copy.take(*v));
  for (int s = 0; s < args.spec.segments; ++s) {
    KvView& kv = host.kv[s];
    for (IndexView* v :
         {&kv.page_table, &kv.v_page_table, &kv.page_indptr, &kv.kv_lens, &kv.starts, &kv.cu_seqlens_kv}) {
      FOVEA_TRY(copy.take(*v));
    }
  }
  return check_attention_values(host);
}

}  // namespace

LaunchShape attention_shape(const AttentionLaunch& launch) {
  LaunchShape shape = {.block = {static_cast<unsigned>(launch.shape.warps * 32)},
                       .smem_bytes = static_cast<unsigned>(attention_smem_bytes(launch.shape))};
  const auto slots = static_cast<unsigned>(launch.slots), units = static_cast<unsigned>(launch.units);
  switch (launch.cut) {
    case AttentionCut::whole:
    case AttentionCut::parts: {
      const auto together = static_cast<unsigned>(launch.together);
      shape.grid = {slots * together, units / together, static_cast<unsigned>(launch.parts)};
      break;
    }
    case AttentionCut::fixed:
      shape.grid = {slots, units, static_cast<unsigned>(launch.blocks)};
      break;
    case AttentionCut::even:
      shape.grid = {static_cast<unsigned>(launch.blocks)};
      break;
  }
  return shape;
}

AttentionCudaArgs attention_block(const AttentionArgs& args, const fovea_exec& exec) {
  AttentionCudaArgs g = {};
  g.a = args;
  const auto scratch = reinterpret_cast<uintptr_t>(exec.scratch);
  g.pieces = reinterpret_cast<float*>((scratch + 15) / 16 * 16);
  g.arrived = static_cast<unsigned*>(exec.sync);
  g.status = exec.status;
  find_alignment(args, g);
  g.start = attention_start(args, g.k_align >= 16 && g.v_align >= 16, g.q_align >= 16);
  return g;
}

void set_launch(const AttentionLaunch& launch, AttentionCudaArgs& g) {
  g.slots = launch.slots;
  g.least_rows = launch.least_rows;
  g.most_rows = launch.most_rows;
  g.parts = launch.parts;
  g.split_tiles = launch.split_tiles;
  g.max_splits = launch.max_splits;
  g.least_tiles = 1;
  g.blocks = make_divider(std::max(launch.blocks, 1));
  g.together = make_divider(launch.together);
}

LaunchShape attention_merge_shape(const AttentionLaunch& launch) {
  return {.grid = {static_cast<unsigned>(launch.slots), static_cast<unsigned>(launch.units)}, .block = {128}};
}

Status attention(BackendContext& context, const AttentionPlan& plan, const AttentionArgs& args,
                 const fovea_exec& exec) {
  const CudaContext& c = cuda(context);
  FOVEA_TRY(refuse_capture_if_checked(c, exec));
  if (exec.flags & FOVEA_EXEC_CHECK) FOVEA_TRY(check_values(c, args, exec.stream));
  if (args.spec.tokens == 0 || args.spec.batch == 0) return {};
  AttentionCudaArgs g = attention_block(args, exec);
  for (int i = 0; i < plan.launch_count; ++i) {
    const AttentionLaunch& launch_plan = plan.launches[i];
    set_launch(launch_plan, g);
    const auto kernel_at = [&](int n) -> const KernelUse& { return plan.kernels[static_cast<size_t>(n)]; };
    FOVEA_TRY(launch(c, kernel_at(launch_plan.kernel), attention_shape(launch_plan), g, exec));
    if (launch_plan.merge < 0) continue;
    FOVEA_TRY(launch(c, kernel_at(launch_plan.merge), attention_merge_shape(launch_plan), g, exec));
  }
  return wait_if_checked(c, exec);
}

}  // namespace fovea::cuda
