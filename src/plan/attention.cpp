// SPDX-License-Identifier: Apache-2.0
#include "plan/attention.h"

#include <algorithm>
#include <cstring>

#include "plan/attention_cuda.h"

namespace fovea {

namespace {

constexpr int64_t kDefaultSplit = 512;           // keys
constexpr int64_t kEnoughTasks = 256;            // beyond it, splits do not have to become tasks
constexpr int64_t kMostPartialBytes = 64 << 20;  // beyond it, splits stay inside their task

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// The largest block of rows whose buffers fit the kernel's stack frame; a small problem takes a small block.
int block_rows(const AttentionSpec& spec, int chunk_keys) {
  const int64_t d_k = spec.kv[0].d_k, d_v = spec.kv[0].d_v;
  const int64_t wanted = std::min<int64_t>(kMaxBlockRows, round_up(spec.max_q_len * spec.group, kBlockRowStep));
  int rows = kBlockRowStep;
  while (rows + kBlockRowStep <= wanted &&
         attention_buffer_floats(rows + kBlockRowStep, chunk_keys, d_k, d_v) <= kBufferFloats) {
    rows += kBlockRowStep;
  }
  return rows;
}

AttentionTiles make_tiles(const AttentionSpec& spec) {
  AttentionTiles tiles;
  tiles.chunk_keys = std::max(spec.kv[0].d_k, spec.kv[0].d_v) <= 256 ? 16 : 8;
  tiles.block_rows = block_rows(spec, tiles.chunk_keys);
  tiles.split_keys = round_up(spec.split_size > 0 ? spec.split_size : kDefaultSplit, kTileKeys);
  for (int s = 0; s < spec.segments; ++s) {
    tiles.max_splits += spec.kv[s].max_len / tiles.split_keys + (spec.kv[s].max_len % tiles.split_keys != 0);
  }
  return tiles;
}

// Bytes of all partial results, or -1 where 64 bits do not count them.
int64_t partial_bytes(const AttentionSpec& spec, const AttentionTiles& tiles) {
  int64_t bytes = attention_partial_floats(spec) * static_cast<int64_t>(sizeof(float));
  const int64_t factors[] = {spec.padded ? spec.batch : 1, spec.tokens, spec.heads, tiles.max_splits};
  for (int64_t f : factors) {
    if (__builtin_mul_overflow(bytes, f, &bytes)) return -1;
  }
  return bytes;
}

// Q and K meet as e4m3.
bool is_e4m3_attention(const AttentionSpec& spec) {
  return spec.q == Dtype::e4m3 && spec.kv[0].k.codec == Codec::fp8 && spec.kv[0].d_rope == 0;
}

// The row that serves this device: the forced one, or the best.
Status find_row(const AttentionSpec& spec, const Caps& caps, const AttentionKernel*& row) {
  row = nullptr;
  if (spec.kernel >= 0) {
    row = &kAttentionKernels[spec.kernel];
    if (row->device_type != caps.device_type || row->least_capability > caps.compute_capability) {
      return unsupported(std::string("attention: kernel ") + row->name + " is not for this device");
    }
    if (!row->e4m3 || is_e4m3_attention(spec)) return {};
    return unsupported(std::string("attention: kernel ") + row->name +
                       " serves q of e4m3 over keys of fp8, without k_rope");
  }
  for (const AttentionKernel& k : kAttentionKernels) {
    const bool serves = k.device_type == caps.device_type && k.role == AttentionRole::by_rows &&
                        k.least_capability <= caps.compute_capability && (!k.e4m3 || is_e4m3_attention(spec));
    if (serves && (row == nullptr || k.least_capability > row->least_capability)) row = &k;
  }
  return row != nullptr ? Status() : unsupported("attention: no kernel for this device");
}

}  // namespace

const AttentionKernel* find_attention_kernel(const char* name) {
  const auto* found = std::find_if(std::begin(kAttentionKernels), std::end(kAttentionKernels),
                                   [&](const AttentionKernel& k) { return std::strcmp(k.name, name) == 0; });
  return found == std::end(kAttentionKernels) ? nullptr : found;
}

Status make_plan(const AttentionSpec& spec, const Caps& caps, AttentionPlan& plan) {
  const AttentionKernel* row = nullptr;
  FOVEA_TRY(find_row(spec, caps, row));
  const AttentionKernel& kernel = *row;
  const struct {
    const char* name;
    int dims;
  } dims[] = {{"d_k", spec.kv[0].d_k}, {"d_v", spec.kv[0].d_v}};
  for (const auto& [name, n] : dims) {
    if (n < kernel.least_d || n > kernel.most_d) {
      return unsupported(std::string("attention: kv.") + name + " is " + std::to_string(n) + ": kernel " + kernel.name +
                         " serves " + std::to_string(kernel.least_d) + " to " + std::to_string(kernel.most_d));
    }
  }
  plan = {};
  plan.spec = spec;
  plan.kernel = kernel.name;
  if (caps.device_type == FOVEA_CUDA) return plan_attention_cuda(spec, caps, plan);
  plan.tiles = make_tiles(spec);
  const int64_t tasks = attention_block_slots(spec, plan.tiles) * spec.kv[0].heads;
  const int64_t bytes = partial_bytes(spec, plan.tiles);
  plan.tiles.partials = plan.tiles.max_splits > 1 && tasks < kEnoughTasks && bytes >= 0 && bytes <= kMostPartialBytes;
  // The caller's memory may begin anywhere: room to align it.
  if (plan.tiles.partials && bytes > 0) plan.workspace.scratch = static_cast<uint64_t>(bytes) + alignof(float);
  return {};
}

std::string explain(const AttentionPlan& plan) {
  if (plan.launch_count > 0) return explain_attention_cuda(plan);
  const AttentionSpec& s = plan.spec;
  const AttentionTiles& t = plan.tiles;
  std::string text = std::string("attention: ") + plan.kernel + " (d_k " + std::to_string(s.kv[0].d_k) + ", d_v " +
                     std::to_string(s.kv[0].d_v) + ", group " + std::to_string(s.group) + "), blocks of " +
                     std::to_string(t.block_rows) + " rows (query x head of a kv head) by tiles of " +
                     std::to_string(kTileKeys) + " keys, splits of " + std::to_string(t.split_keys) + " keys";
  if (s.split_size > 0 && s.split_size != t.split_keys) {
    text += " (" + std::to_string(s.split_size) + " rounded up to whole tiles)";
  } else if (s.split_size == 0) {
    text += " (chosen: the same for every shape)";
  }
  text += ", at most " + std::to_string(t.max_splits) + " per sequence";
  if (t.partials) {
    text += ", each a task of its own because blocks alone would be few; partial results in " +
            std::to_string(plan.workspace.scratch) + " bytes of scratch";
  } else {
    text += ", one after the other inside a task";
  }
  text += ". Bits never depend on batch, capacity, threads or how a sequence was cut into calls";
  if (s.segments > 1) text += ", but on where its segments begin, each of which has tiles of its own";
  if (s.kv[0].shard.world > 1) text += "; keys of other ranks are left to theirs";
  return text + ".";
}

}  // namespace fovea
