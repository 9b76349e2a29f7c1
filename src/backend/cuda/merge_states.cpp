// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cuda/blocks.h"
#include "backend/cuda/checked.h"
#include "backend/cuda/operations.h"

namespace fovea::cuda {

namespace {

constexpr int kThreads = 256;

MergeTensor tensor_of(const View& v) {
  if (!v.given()) return {};
  const i64_t bytes = v.block_bytes;
  return {static_cast<char*>(v.data), v.stride[0] * bytes, v.stride[1] * bytes, v.stride[2] * bytes};
}

// To 16 bytes, every row. A stride along a dimension of one is never taken.
bool is_aligned(const View& v) {
  u64_t bits = reinterpret_cast<u64_t>(v.data);
  for (int i = 0; i < 3; ++i) {
    if (v.shape[i] > 1) bits |= static_cast<u64_t>(v.stride[i] * v.block_bytes);
  }
  return bits % 16 == 0;
}

template <int capacity>
Status run(const CudaContext& context, const MergeStatesPlan& plan, const MergeStatesArgs& args,
           const fovea_exec& exec) {
  const MergeStatesBlock<capacity> block = merge_states_block<capacity>(plan, args);
  return launch(context, plan.kernels[0], merge_states_shape(block.rows, plan.lanes), block, exec);
}

}  // namespace

template <int capacity>
MergeStatesBlock<capacity> merge_states_block(const MergeStatesPlan& plan, const MergeStatesArgs& args) {
  const MergeStatesSpec& s = args.spec;
  MergeStatesBlock<capacity> block;
  block.rows = s.batch * s.tokens * s.heads;
  block.tokens = s.tokens;
  block.heads = s.heads;
  block.d = static_cast<int>(s.d);
  block.parts = s.parts;
  block.lanes = plan.lanes;
  block.out_type = s.out;
  block.out = tensor_of(args.out);
  block.lse = tensor_of(args.lse);
  block.sinks = static_cast<const float*>(args.sinks.data);
  block.sinks_stride = args.sinks.stride[0];
  bool wide = s.d % 8 == 0 && is_aligned(args.out);
  for (int p = 0; p < s.parts; ++p) {
    block.types[p] = static_cast<u8_t>(s.outs[p]);
    block.outs[p] = tensor_of(args.outs[p]);
    block.lses[p] = tensor_of(args.lses[p]);
    wide = wide && s.outs[p] == s.outs[0] && is_aligned(args.outs[p]);
  }
  block.wide = wide;
  return block;
}
template MergeStatesBlock<kFewParts> merge_states_block<kFewParts>(const MergeStatesPlan&, const MergeStatesArgs&);
template MergeStatesBlock<kMaxParts> merge_states_block<kMaxParts>(const MergeStatesPlan&, const MergeStatesArgs&);

LaunchShape merge_states_shape(i64_t rows, int lanes) {
  const i64_t rows_per_block = kThreads / lanes;
  const i64_t blocks = std::min<i64_t>((rows + rows_per_block - 1) / rows_per_block, 0x7FFFFFFF);
  return {.grid = {static_cast<unsigned>(blocks)}, .block = {kThreads}};
}

Status merge_states(BackendContext& context, const MergeStatesPlan& plan, const MergeStatesArgs& args,
                    const fovea_exec& exec) {
  const CudaContext& c = cuda(context);
  FOVEA_TRY(refuse_capture_if_checked(c, exec));
  FOVEA_TRY(args.spec.parts <= kFewParts ? run<kFewParts>(c, plan, args, exec) : run<kMaxParts>(c, plan, args, exec));
  return wait_if_checked(c, exec);
}

}  // namespace fovea::cuda
