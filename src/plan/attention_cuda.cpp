// SPDX-License-Identifier: Apache-2.0
#include "plan/attention_cuda.h"

#include <algorithm>

#include "plan/kv_side.h"

namespace fovea {

namespace {

constexpr int kDecodeRows = 64;                 // per kv head: up to here the decode kernel is the better one
constexpr int kInvariantSplit = 1024;           // keys of a split whose place is fixed, where the caller names none
constexpr int kLeastPartTiles = 8;              // of a part of a prefill's keys
constexpr int64_t kMostPieceBytes = 256 << 20;  // of prefill: beyond it, keys stay whole
constexpr int kSmReserved = 1024;               // bytes of shared memory that each block costs beside its own

int round_up(int n, int to) {
  return (n + to - 1) / to * to;
}
int64_t divide_up(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

// What kernels of a row's family are made of. The families are named after the least capability of their rows.
struct Family {
  int capability;
  bool bf16;  // has products of bf16; otherwise rows of bf16 become f16
  const char *prefill_file, *prefill_entry, *decode_file, *decode_entry;
};
constexpr Family kFamilies[] = {
    {70, false, "backend/cuda/kernels/attention_prefill_sm70.cuh", "attention_prefill_sm70",
     "backend/cuda/kernels/attention_decode_sm70.cuh", "attention_decode_sm70"},
    {75, false, "backend/cuda/kernels/attention_prefill_sm75.cuh", "attention_prefill_sm75",
     "backend/cuda/kernels/attention_decode_sm75.cuh", "attention_decode_sm75"},
    {80, true, "backend/cuda/kernels/attention_prefill_sm80.cuh", "attention_prefill_sm80",
     "backend/cuda/kernels/attention_decode_sm80.cuh", "attention_decode_sm80"},
    {89, true, "backend/cuda/kernels/attention_prefill_sm89.cuh", "attention_prefill_sm89",
     "backend/cuda/kernels/attention_decode_sm89.cuh", "attention_decode_sm89"},
};
const Family& family_of(const AttentionPlan& plan) {
  const int capability = find_attention_kernel(plan.kernel)->least_capability;
  return *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                       [&](const Family& f) { return f.capability == capability; });
}

std::string text(Dtype t) {
  const DtypeRow* row = find_dtype(static_cast<int>(t));
  return row != nullptr ? row->name : "none";
}
bool is_16bit(Dtype t) {
  return t == Dtype::f16 || t == Dtype::bf16;
}

// The 16-bit type of both products' operands: Q's, or where Q is f32 or e4m3 the cache's, or f16.
Status operand_kind(const AttentionSpec& spec, const Family& family, Dtype& kind) {
  FOVEA_TRY(check_codec_on_cuda("attention", "kv.k", spec.kv[0].k));
  FOVEA_TRY(check_codec_on_cuda("attention", "kv.v", spec.kv[0].v));
  const Dtype k = codec_dtype(spec.kv[0].k.codec), v = codec_dtype(spec.kv[0].v.codec);
  kind = is_16bit(spec.q) ? spec.q : is_16bit(k) ? k : is_16bit(v) ? v : Dtype::f16;
  if (!family.bf16) kind = Dtype::f16;
  const struct {
    const char* name;
    Dtype type;
  } sides[] = {{"kv.k.codec", k}, {"kv.v.codec", v}};
  for (const auto& [name, type] : sides) {
    if (type == kind || type == Dtype::e4m3 || (type == Dtype::bf16 && !family.bf16)) continue;
    return unsupported(std::string("attention: ") + name + " is " + text(type) + ", q is " + text(spec.q) +
                       ": on CUDA a side of the cache is fp8 or of the products' 16-bit type, here " + text(kind));
  }
  if (spec.kv[0].d_rope > 0 && spec.kv[0].rope_dtype != kind) {
    return unsupported("attention: kv.rope_dtype is " + text(spec.kv[0].rope_dtype) +
                       ": on CUDA it is the products' 16-bit type, here " + text(kind));
  }
  if (spec.kv[0].d_rope > 0 && !family.bf16 && (k == Dtype::bf16 || v == Dtype::bf16)) {
    return unsupported("attention: a cache of bf16 with rope dims of f16 has no kernel of this family");
  }
  return {};
}
// Rows of this type become f16 on their way to the products.
bool is_narrowed(Dtype type, Dtype kind) {
  return type == Dtype::bf16 && kind == Dtype::f16;
}

Status check_spec(const AttentionSpec& spec) {
  for (int s = 0; s < spec.segments; ++s) {
    const KvSpec& kv = spec.kv[s];
    if (kv.k.scale_kind == ScaleKind::group || kv.v.scale_kind == ScaleKind::group) {
      return unsupported("attention: scale_kind group has no CUDA kernel");
    }
    if (kv.k.codec != spec.kv[0].k.codec || kv.v.codec != spec.kv[0].v.codec || kv.d_rope != spec.kv[0].d_rope ||
        kv.rope_dtype != spec.kv[0].rope_dtype || kv.v_in_k != spec.kv[0].v_in_k) {
      return unsupported("attention: segments of different codecs have no CUDA kernel");
    }
    if (kv.max_len > kMostKeys) {
      return unsupported("attention: kv allows " + std::to_string(kv.max_len) +
                         " tokens of one sequence: CUDA kernels serve 2^30; max_len may bound it");
    }
  }
  const int64_t rows = spec.tokens > 0 ? spec.tokens * spec.group : 0;
  if (spec.tokens > kMostKeys || rows > kMostKeys || spec.batch > kMostKeys) {
    return unsupported("attention: CUDA kernels serve 2^30 rows per kv head");
  }
  return {};
}

bool fits(const AttentionShape& shape, const Caps& caps) {
  return attention_smem_bytes(shape) <= caps.smem_bytes;
}

// What does not depend on how rows and keys are shared among warps.
AttentionShape base_shape(const AttentionSpec& spec, const AttentionPlan& plan, int most_dv) {
  const KvSpec& kv = spec.kv[0];
  AttentionShape shape;
  shape.q8 = find_attention_kernel(plan.kernel)->e4m3;
  shape.k8 = kv.k.codec == Codec::fp8;
  shape.v8 = kv.v.codec == Codec::fp8;
  shape.v_in_k = kv.v_in_k;
  shape.q_parts = spec.q == Dtype::f32 ? 2 : 1;
  shape.d_main = round_up(kv.d_k - kv.d_rope, shape.k8 ? 32 : 16);
  shape.d_rope = round_up(kv.d_rope, 16);
  const int parts = static_cast<int>(divide_up(kv.d_v, most_dv));
  shape.d_v = round_up(static_cast<int>(divide_up(kv.d_v, parts)), shape.v8 ? 32 : 16);
  return shape;
}

// Rows of Q that may lie beyond f16.
bool has_q_factors(const AttentionSpec& spec, Dtype kind) {
  return kind == Dtype::f16 && (spec.q == Dtype::f32 || spec.q == Dtype::bf16);
}
// Options that a kernel pays for although few calls have them are a build of their own.
bool is_general(const AttentionSpec& spec, Dtype kind) {
  const auto by_token = [](const KvSideSpec& side) { return side.scale_kind == ScaleKind::token_head; };
  return spec.segments > 1 || by_token(spec.kv[0].k) || by_token(spec.kv[0].v) || spec.softcap > 0 ||
         spec.alibi_rank > 0 || spec.has_bits || spec.mask.kind == MaskKind::chunk || spec.kv[0].shard.world > 1 ||
         has_q_factors(spec, kind) || is_narrowed(codec_dtype(spec.kv[0].k.codec), kind) ||
         is_narrowed(codec_dtype(spec.kv[0].v.codec), kind);
}

Status does_not_fit(const AttentionSpec& spec) {
  return unsupported("attention: kv.d_k is " + std::to_string(spec.kv[0].d_k) +
                     ": its rows do not fit into the card's shared memory");
}

// The first of some shapes, best first, that the card's shared memory holds.
Status prefill_shape(const AttentionSpec& spec, const Caps& caps, const AttentionPlan& plan, Dtype kind,
                     AttentionShape& shape) {
  const int capability = family_of(plan).capability;
  const struct {
    int warps, m_tiles, keys;
  } wide[] = {{4, 2, 64}, {4, 2, 32}, {4, 2, 16}, {4, 1, 32}, {4, 1, 16}, {2, 1, 16}, {1, 1, 16}},
    deep[] = {{8, 1, 64}, {8, 1, 32}, {4, 1, 64}, {4, 1, 32}, {4, 1, 16}, {2, 1, 16}, {1, 1, 16}};
  const auto choose = [&](const auto& shapes) {
    for (const auto& [warps, m_tiles, keys] : shapes) {
      // Copies through registers, products of bytes and those of quad-pairs leave fewer registers for scores.
      const bool large = shape.d_v > 64 || (is_general(spec, kind) && keys > 32);
      if (capability != 80 && m_tiles == 2 && large) continue;
      shape.warps = warps;
      shape.m_tiles = m_tiles;
      shape.keys = keys;
      if (fits(shape, caps)) return true;
    }
    return false;
  };
  for (const int most_dv : {kMaxDvPart, kMaxDvPart / 2}) {
    shape = base_shape(spec, plan, most_dv);
    shape.stages = 2;
    if (shape.d_v <= 128 ? choose(wide) : choose(deep)) return {};
  }
  return does_not_fit(spec);
}

Status decode_shape(const AttentionSpec& spec, const Caps& caps, const AttentionPlan& plan, AttentionShape& shape) {
  const bool invariant = spec.batch_invariant || spec.chunk_invariant;
  const int64_t rows = spec.group * (invariant ? 1 : std::max<int64_t>(spec.max_q_len, 1));
  for (const int most_dv : {kMaxDvPart, kMaxDvPart / 2}) {
    shape = base_shape(spec, plan, most_dv);
    shape.decode = 1;
    shape.keys = 16;
    const int most_m_tiles = rows > 16 && shape.d_v <= 128 ? 2 : 1;
    for (const int warps : {4, 2, 1}) {
      for (const int stages : {3, 2}) {
        for (int m_tiles = most_m_tiles; m_tiles >= 1; --m_tiles) {
          shape.warps = warps;
          shape.stages = stages;
          shape.m_tiles = m_tiles;
          if (fits(shape, caps)) return {};
        }
      }
    }
  }
  return does_not_fit(spec);
}

// Blocks that one multiprocessor holds at once: by registers (255 a thread), and by shared memory.
int blocks_per_sm(const AttentionShape& shape, const Caps& caps) {
  const int by_registers = 65536 / (256 * 32 * shape.warps);
  const int by_smem = (caps.smem_bytes + kSmReserved) / (attention_smem_bytes(shape) + kSmReserved);
  return std::clamp(std::min(by_registers, by_smem), 1, 2);
}

// Row blocks that a run may have, empty ones included, whatever the lengths.
int64_t count_slots(const AttentionSpec& spec, const AttentionShape& shape) {
  const int64_t rows = spec.tokens * spec.group, block = attention_block_rows(shape);
  return spec.padded ? spec.batch * divide_up(rows, block) : rows / block + spec.batch;
}

KernelRequest make_request(std::string_view file, std::string_view entry, const AttentionSpec& spec,
                           const AttentionShape& shape, Dtype kind, bool fixed, const Caps& caps) {
  KernelRequest request = {.file = file,
                           .entry = entry,
                           .constants = {{"kind", static_cast<int32_t>(kind)},
                                         {"decode", shape.decode},
                                         {"warps", shape.warps},
                                         {"m_tiles", shape.m_tiles},
                                         {"block_rows", attention_block_rows(shape)},
                                         {"keys", shape.keys},
                                         {"stages", shape.stages},
                                         {"q_parts", shape.q_parts},
                                         {"v_in_k", shape.v_in_k},
                                         {"q8", shape.q8},
                                         {"k8", shape.k8},
                                         {"v8", shape.v8},
                                         {"d_main", shape.d_main},
                                         {"d_rope", shape.d_rope},
                                         {"d_v", shape.d_v},
                                         {"k_narrow", is_narrowed(codec_dtype(spec.kv[0].k.codec), kind)},
                                         {"v_narrow", is_narrowed(codec_dtype(spec.kv[0].v.codec), kind)},
                                         {"q_factors", has_q_factors(spec, kind)},
                                         {"general", is_general(spec, kind)},
                                         {"blocks_per_sm", blocks_per_sm(shape, caps)}},
                           .arch = caps.arch};
  const KvLayout layout = spec.kv[0].layout;
  const bool paged = !is_general(spec, kind) && (layout == KvLayout::paged || layout == KvLayout::paged_csr);
  request.constants.push_back(shape.decode ? KernelConstant{"fixed", fixed} : KernelConstant{"paged", paged});
  return request;
}

int add_kernel(AttentionPlan& plan, KernelRequest request) {
  plan.kernels.push_back({std::move(request)});
  return static_cast<int>(plan.kernels.size()) - 1;
}
int add_merge(AttentionPlan& plan, const AttentionShape& shape, const Caps& caps) {
  return add_kernel(plan, {.file = "backend/cuda/kernels/attention_merge.cuh",
                           .entry = "attention_merge",
                           .constants = {{"block_rows", attention_block_rows(shape)}, {"d_v", shape.d_v}},
                           .arch = caps.arch});
}

int64_t piece_bytes(const AttentionShape& shape) {
  return attention_piece_floats(attention_block_rows(shape), shape.d_v) * static_cast<int64_t>(sizeof(float));
}

// Room in scratch for `pieces` pieces, or why not. Launches follow each other, so they share it.
Status need_pieces(AttentionPlan& plan, const AttentionShape& shape, int64_t row_blocks, int64_t each) {
  int64_t bytes = piece_bytes(shape);
  for (const int64_t factor : {row_blocks, each}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes)) {
      return unsupported("attention: partial results of more than 2^63 bytes");
    }
  }
  plan.workspace.scratch = std::max(plan.workspace.scratch, static_cast<uint64_t>(bytes) + 16);  // to align it
  return {};
}

Status check_grid(int64_t x, int64_t y) {
  if (x <= INT32_MAX && y <= 65535) return {};
  return unsupported("attention: a grid of " + std::to_string(x) + " x " + std::to_string(y) +
                     " blocks: CUDA allows 2^31 - 1 x 65535");
}

void start_launch(const AttentionSpec& spec, const AttentionShape& shape, AttentionLaunch& launch) {
  launch.shape = shape;
  launch.slots = count_slots(spec, shape);
  launch.units = static_cast<int>(spec.kv[0].heads * divide_up(spec.kv[0].d_v, shape.d_v));
}

// Blocks of one length run together, long ones first, so that the launch ends with short ones: of up to 32 sequences,
// and of as many units (a divisor of all) as make at most kMostTogether pairs. Of long caches fewer: half of L2 is to
// hold their keys, but below kLeastTogether the end weighs more.
constexpr int64_t kLeastTogether = 16, kMostTogether = 64;
int units_together(const AttentionSpec& spec, const Caps& caps, const AttentionLaunch& launch) {
  const KvSpec& kv = spec.kv[0];
  const int64_t pair_bytes = std::max<int64_t>(kv.max_len, 1) * (kv.d_k + (kv.v_in_k ? 0 : kv.d_v)) *
                             dtype_block_bytes(codec_dtype(kv.k.codec));
  const int64_t pairs = std::clamp(caps.l2_bytes / 2 / pair_bytes, kLeastTogether, kMostTogether);
  int64_t most = std::clamp<int64_t>(pairs / std::clamp<int64_t>(spec.batch, 1, 32), 1, launch.units);
  most = std::min(most, INT32_MAX / std::max<int64_t>(launch.slots, 1));
  while (launch.units % most != 0) --most;
  return static_cast<int>(most);
}

Status add_prefill(const AttentionSpec& spec, const Caps& caps, Dtype kind, int least_rows, AttentionPlan& plan) {
  AttentionShape shape;
  const Family& family = family_of(plan);
  FOVEA_TRY(prefill_shape(spec, caps, plan, kind, shape));
  AttentionLaunch& launch = plan.launches[plan.launch_count++];
  start_launch(spec, shape, launch);
  launch.least_rows = least_rows;
  FOVEA_TRY(check_grid(launch.slots, launch.units));
  launch.together = units_together(spec, caps, launch);
  launch.kernel =
      add_kernel(plan, make_request(family.prefill_file, family.prefill_entry, spec, shape, kind, false, caps));
  // Few row blocks over long caches: several blocks share the keys of one.
  const bool invariant = spec.batch_invariant || spec.chunk_invariant;
  int64_t tiles = 0;
  for (int s = 0; s < spec.segments; ++s) tiles += divide_up(spec.kv[s].max_len, kTileKeys);
  const int64_t blocks = std::max<int64_t>(launch.slots * launch.units, 1);
  const int64_t room = int64_t{caps.sm_count} * blocks_per_sm(shape, caps);
  int64_t parts = invariant ? 1 : std::min(room / blocks, tiles / kLeastPartTiles);
  parts = std::min(parts, kMostPieceBytes / (blocks * piece_bytes(shape)));
  if (parts < 2) return {};
  launch.cut = AttentionCut::parts;
  launch.parts = launch.max_splits = static_cast<int>(parts);
  launch.merge = add_merge(plan, shape, caps);
  return need_pieces(plan, shape, blocks, parts);
}

Status add_decode(const AttentionSpec& spec, const Caps& caps, Dtype kind, int most_rows, AttentionPlan& plan) {
  AttentionShape shape;
  const Family& family = family_of(plan);
  FOVEA_TRY(decode_shape(spec, caps, plan, shape));
  AttentionLaunch& launch = plan.launches[plan.launch_count++];
  start_launch(spec, shape, launch);
  launch.most_rows = most_rows;
  const bool fixed = spec.batch_invariant || spec.chunk_invariant || spec.split_size > 0;
  launch.kernel =
      add_kernel(plan, make_request(family.decode_file, family.decode_entry, spec, shape, kind, fixed, caps));
  const int64_t room = int64_t{caps.sm_count} * blocks_per_sm(shape, caps);
  if (!fixed) {
    launch.cut = AttentionCut::even;
    launch.blocks = static_cast<int>(room);
    plan.workspace.sync = std::max<uint64_t>(plan.workspace.sync, static_cast<uint64_t>(room) * sizeof(unsigned));
    return need_pieces(plan, shape, 2, room);
  }
  launch.cut = AttentionCut::fixed;
  const int64_t size = spec.split_size > 0 ? spec.split_size : kInvariantSplit;
  launch.split_tiles = static_cast<int>(std::min<int64_t>(divide_up(size, kTileKeys), INT32_MAX / kTileKeys));
  int64_t splits = 0;
  for (int s = 0; s < spec.segments; ++s) {
    splits += divide_up(spec.kv[s].max_len, int64_t{launch.split_tiles} * kTileKeys);
  }
  FOVEA_TRY(check_grid(launch.slots, launch.units));
  launch.max_splits = static_cast<int>(std::max<int64_t>(splits, 1));
  if (splits <= 1) {
    launch.blocks = 1;
    return {};
  }
  const int64_t blocks = std::max<int64_t>(launch.slots * launch.units, 1);
  launch.blocks =
      static_cast<int>(std::clamp<int64_t>(divide_up(4 * room, blocks), 1, std::min<int64_t>(splits, 65535)));
  launch.merge = add_merge(plan, shape, caps);
  return need_pieces(plan, shape, blocks, launch.max_splits);
}

}  // namespace

Status plan_attention_cuda(const AttentionSpec& spec, const Caps& caps, AttentionPlan& plan) {
  Dtype kind = Dtype::none;
  FOVEA_TRY(check_spec(spec));
  FOVEA_TRY(operand_kind(spec, family_of(plan), kind));
  const AttentionRole role = find_attention_kernel(plan.kernel)->role;
  const int64_t most_rows = std::min(spec.max_q_len, spec.tokens) * spec.group;
  const bool invariant = spec.batch_invariant || spec.chunk_invariant;
  if (role == AttentionRole::decode || spec.chunk_invariant ||
      (role == AttentionRole::by_rows && most_rows <= kDecodeRows)) {
    if (role == AttentionRole::prefill) {
      return unsupported(std::string("attention: chunk_invariant needs the decode kernel for every row; ") +
                         plan.kernel + " is forced");
    }
    return add_decode(spec, caps, kind, INT32_MAX, plan);
  }
  // Where every sequence is long, as far as the bounds tell, short ones are left to prefill as well; their bits may
  // then depend on that. Otherwise each sequence takes the kernel for its own rows.
  const bool long_only = !invariant && (spec.padded || spec.batch * spec.max_q_len <= spec.tokens) &&
                         !spec.has_q_lens && !spec.has_q_starts;
  if (role == AttentionRole::prefill || long_only) return add_prefill(spec, caps, kind, -1, plan);
  FOVEA_TRY(add_prefill(spec, caps, kind, kDecodeRows, plan));
  return add_decode(spec, caps, kind, kDecodeRows, plan);
}

std::string explain_attention_cuda(const AttentionPlan& plan) {
  const AttentionSpec& s = plan.spec;
  std::string all = std::string("attention: ") + plan.kernel + " (d_k " + std::to_string(s.kv[0].d_k) + ", d_v " +
                    std::to_string(s.kv[0].d_v) + ", group " + std::to_string(s.group) + ")";
  for (int i = 0; i < plan.launch_count; ++i) {
    const AttentionLaunch& launch = plan.launches[i];
    all += i == 0 ? ": " : "; ";
    all += std::string(launch.shape.decode ? "decode" : "prefill");
    if (launch.least_rows >= 0) all += " for sequences of more than " + std::to_string(launch.least_rows) + " rows";
    if (launch.most_rows < INT32_MAX) all += " for sequences of at most " + std::to_string(launch.most_rows) + " rows";
    all += ", blocks of " + std::to_string(attention_block_rows(launch.shape)) + " rows";
    switch (launch.cut) {
      case AttentionCut::whole:
        all += ", keys whole";
        if (launch.together > 1) all += ", " + std::to_string(launch.together) + " units at a time";
        break;
      case AttentionCut::parts:
        all += ", keys in " + std::to_string(launch.parts) +
               " parts because row blocks are few, merged by a second kernel";
        break;
      case AttentionCut::fixed:
        all += ", keys in splits of " + std::to_string(launch.split_tiles * kTileKeys) + " at fixed places, at most " +
               std::to_string(launch.max_splits) + " per sequence" +
               (launch.merge >= 0 ? ", merged by a second kernel" : "");
        break;
      case AttentionCut::even:
        all += ", the tiles of all sequences cut evenly between " + std::to_string(launch.blocks) +
               " blocks, merged in the same launch";
        break;
    }
    all += " [" + name(plan.kernels[static_cast<size_t>(launch.kernel)].request) + "]";
  }
  const auto& constants = plan.kernels[static_cast<size_t>(plan.launches[0].kernel)].request.constants;
  const bool narrow = std::any_of(constants.begin(), constants.end(), [](const KernelConstant& c) {
    return c.value != 0 && (std::string_view(c.name) == "k_narrow" || std::string_view(c.name) == "v_narrow");
  });
  if (narrow) all += ", rows of bf16 as f16 with a power of two each";
  all += ". Scratch " + std::to_string(plan.workspace.scratch) + " bytes, sync " + std::to_string(plan.workspace.sync) +
         " bytes";
  return all + ".";
}

}  // namespace fovea
