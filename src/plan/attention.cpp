// SPDX-License-Identifier: Apache-2.0
#include "plan/attention.h"

#include <algorithm>
#include <cstring>

#include "plan/attention_cuda.h"

namespace fovea {

namespace {

constexpr int64_t kDefaultSplit = 512;           // keys
constexpr int64_t kLeastAmxRows = kFewRows + 1;  // of a sequence and kv head
constexpr int64_t kEnoughTasks = 256;            // beyond it, splits do not have to become tasks
constexpr int64_t kMostPartialBytes = 64 << 20;  // beyond it, splits stay inside their task

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Do the buffers of a block fit the kernel's stack frame?
bool fits_frame(const AttentionSpec& spec, int64_t rows, int chunk_keys, bool amx) {
  const int64_t d_k = spec.kv[0].d_k, d_v = spec.kv[0].d_v;
  return attention_buffer_floats(rows, chunk_keys, d_k, d_v) <= kBufferFloats &&
         (!amx || attention_amx_floats(rows, d_k, d_v) <= kBufferFloats);
}

// The largest block of rows that fits; a small problem takes a small block.
int block_rows(const AttentionSpec& spec, int chunk_keys, bool amx) {
  const int64_t wanted = std::min<int64_t>(kMaxBlockRows, round_up(spec.max_q_len * spec.group, kBlockRowStep));
  int rows = kBlockRowStep;
  while (rows + kBlockRowStep <= wanted && fits_frame(spec, rows + kBlockRowStep, chunk_keys, amx)) {
    rows += kBlockRowStep;
  }
  return rows;
}

AttentionTiles make_tiles(const AttentionSpec& spec, bool amx) {
  AttentionTiles tiles;
  tiles.chunk_keys = std::max(spec.kv[0].d_k, spec.kv[0].d_v) <= 256 ? 16 : 8;
  tiles.block_rows = block_rows(spec, tiles.chunk_keys, amx);
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

// Q, K and V are plain bf16.
bool is_bf16_attention(const AttentionSpec& spec) {
  bool all = spec.q == Dtype::bf16;
  for (int s = 0; s < spec.segments; ++s) {
    const KvSpec& kv = spec.kv[s];
    all = all && kv.d_rope == 0;
    for (const KvSideSpec& side : {kv.k, kv.v}) {
      all = all && side.codec == Codec::bf16 && side.scale_kind == ScaleKind::none;
    }
  }
  return all;
}

// Where no kernel is forced: whether some sequence may have enough rows for AMX tiles, and bits may depend on how many
// it has.
bool wants_amx(const AttentionSpec& spec, const Caps& caps, const AttentionKernel& kernel) {
  const int64_t most_d = std::max(spec.kv[0].d_k, spec.kv[0].d_v);
  return caps.amx != 0 && is_bf16_attention(spec) && most_d <= kernel.most_d && spec.chunk_invariant == 0 &&
         spec.max_q_len * spec.group >= kLeastAmxRows;
}

Status check_amx(const AttentionSpec& spec, const Caps& caps, const AttentionKernel& kernel) {
  const std::string name = std::string("attention: kernel ") + kernel.name;
  if (caps.amx == 0) return unsupported(name + " needs AMX with bf16, a Linux that permits it, and isa AVX3");
  if (is_bf16_attention(spec)) return {};
  return unsupported(name + " serves q and kv of bf16, without scales or k_rope");
}

// The row that serves this device: the forced one, or the best.
Status find_row(const AttentionSpec& spec, const Caps& caps, const AttentionKernel*& row) {
  row = nullptr;
  if (spec.kernel >= 0) {
    row = &kAttentionKernels[spec.kernel];
    if (row->device_type != caps.device_type || row->least_capability > caps.compute_capability) {
      return unsupported(std::string("attention: kernel ") + row->name + " is not for this device");
    }
    if (row->amx) return check_amx(spec, caps, *row);
    if (!row->e4m3 || is_e4m3_attention(spec)) return {};
    return unsupported(std::string("attention: kernel ") + row->name +
                       " serves q of e4m3 over keys of fp8, without k_rope");
  }
  for (const AttentionKernel& k : kAttentionKernels) {
    const bool serves = k.device_type == caps.device_type && k.role == AttentionRole::by_rows &&
                        k.least_capability <= caps.compute_capability && (!k.e4m3 || is_e4m3_attention(spec)) &&
                        (!k.amx || wants_amx(spec, caps, k));
    if (serves && (row == nullptr || k.amx || k.least_capability > row->least_capability)) row = &k;
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
  if (kernel.amx) plan.least_amx_rows = spec.kernel >= 0 ? 0 : kLeastAmxRows;
  plan.tiles = make_tiles(spec, kernel.amx);
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
  if (plan.least_amx_rows == kNoAmxRows) {
    text += ". Bits never depend on batch, capacity, threads or how a sequence was cut into calls";
  } else if (plan.least_amx_rows == 0) {
    text +=
        ". Every sequence by AMX tiles, because they were asked for: weights are rounded to bf16; bits never depend "
        "on batch, capacity, threads or how a sequence was cut into calls";
  } else {
    text +=
        ". Sequences of at least " + std::to_string(plan.least_amx_rows) +
        " rows per kv head by AMX tiles, with weights rounded to bf16, others by cpu_tiles in f32. Bits never depend "
        "on batch, capacity or threads; where they must not depend on how a sequence was cut into calls, "
        "chunk_invariant chooses cpu_tiles for all";
  }
  if (s.segments > 1) text += ", but on where its segments begin, each of which has tiles of its own";
  if (s.kv[0].shard.world > 1) text += "; keys of other ranks are left to theirs";
  return text + ".";
}

}  // namespace fovea
