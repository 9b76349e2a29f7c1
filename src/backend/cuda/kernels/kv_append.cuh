// SPDX-License-Identifier: Apache-2.0
// kv_append: norm, rotation, rounding and encoding of the K, V and Q rows of each token, one read and one write.
//
//   x = x / sqrt(mean(x^2) + eps) * (w + offset)    K and Q, over the dims before the k_rope part
//   (a, b) = (a cos - b sin, b cos + a sin)         K and Q, each product and sum rounded once
//   x = round(x)                                    K: to its own type where that has 16 bits
//   stored = x / s                                  s given per tensor or head; or computed: max|x| / 448
//
// From a given x the stored bytes are the CPU's: conversions, angles and scales are the functions of src/shared, and
// nothing is contracted. Only the sum of the norm has an order of its own.
//
// Grid: blocks that walk over the tokens. Block: 1 to 8 warps: one where there are many tokens, which then share the
// work on slots, positions and angles of a token among all its rows; more where few tokens would leave the device
// empty. A token's rows are dealt to the warps as tasks of one kind (K, V or Q): 32 / lanes rows each, a row in a group
// of `lanes` lanes (kv_append_block.h). The rows of a warp's first task are in flight while the block makes the angles.
// One barrier per token: the angles have two buffers, and no warp is more than one token ahead of another.
//
// Constants: `width`, elements of a chunk: 8 (accesses of 16 bytes where rows are aligned), 1 where dims do not divide;
// `units`, pairs of chunks of a lane. They size register arrays: 16 or 32 values. Types are run-time switches around
// the loads and stores.
//
// Shared memory (dynamic, append_smem): frequencies 8 bytes a pair of dims, cos and sin in two buffers 16 bytes a pair,
// and where groups of dims have scales the largest magnitudes of theirs, 256 * units bytes a warp.
#pragma once

#include "backend/cuda/kernels/grid_start.cuh"
#include "backend/cuda/kernels/rows.cuh"
#include "backend/cuda/kernels/smem.cuh"
#include "backend/cuda/kernels/status.cuh"
#include "shared/angle.h"
#include "shared/kv/scale.h"
#include "shared/params/kv_append_block.h"

namespace fovea {

enum : int { kAppendWarps = 8, kRowChunks = 2 * config::units };
// Rows of chunks of 1 are for dims that nobody has: they stay arrays in local memory, and their code small.
enum : int { kUnrolled = config::width == 1 ? 2 : kRowChunks };
enum : u32_t { kAllLanes = 0xFFFFFFFFu };

// A row as its lane holds it: chunks [2 u] and [2 u + 1] are a unit.
struct RawRow {
  u32_t words[kRowChunks][config::width];
};
struct Row {
  float x[kRowChunks][config::width];  // the raw words' bits where a chunk is copied
};

// What a lane has of a token: one row of some kind, and where its chunks begin in it.
struct Task {
  int kind;              // 0: K, 1: V, 2: Q
  int head;              // of the row
  int dims[kRowChunks];  // d: no chunk
};

// The lane's group in its warp, and its place there.
inline int group_of(const AppendShape& s) {
  return (static_cast<int>(threadIdx.x) & 31) >> s.lane_bits;
}
inline int lane_of(const AppendShape& s) {
  return static_cast<int>(threadIdx.x) & (s.lanes - 1);
}

// Is the chunk at this dim passed on bit by bit?
inline bool copies(const AppendRows& r, int dim) {
  return r.copy && (dim < r.shape.main ? r.to_type : r.tail_type) == r.type;
}

// Calls body(chunk, dim) for the chunks that this lane holds.
template <class Body>
inline void for_chunks(const AppendShape& s, const Task& t, const Body& body) {
#pragma unroll(kUnrolled)
  for (int c = 0; c < kRowChunks; ++c) {
    if (t.dims[c] < s.d) body(c, t.dims[c]);
  }
}

inline void fetch_row(const AppendRows& r, const Task& t, i64_t token, RawRow& raw) {
  const char* from = r.from.base + token * r.from.token_stride + t.head * r.from.head_stride;
  with_input_type(r.type, [&](auto type) {
    using Type = decltype(type);
    for_chunks(r.shape, t, [&](int c, int dim) {
      fetch<Type>(from + dim * static_cast<int>(sizeof(typename Type::Raw)), raw.words[c]);
    });
  });
}

template <class T>
inline T group_sum(T x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
inline u32_t group_most(u32_t x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    const u32_t other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}

inline void norm_row(const KvAppendBlock& a, const AppendRows& r, const Task& t, Row& row) {
  float squares = 0;
  for_chunks(r.shape, t, [&](int c, int dim) {
    if (dim >= r.shape.main) return;
#pragma unroll
    for (int j = 0; j < config::width; ++j) squares += row.x[c][j] * row.x[c][j];
  });
  const float power = group_sum(squares, r.shape.lanes) / static_cast<float>(r.shape.main);
  const float inverse = 1.0f / sqrtf(power + a.norm_eps);
  with_input_type(r.weight_type, [&](auto type) {
    using Type = decltype(type);
    for_chunks(r.shape, t, [&](int c, int dim) {
      if (dim >= r.shape.main) return;
      u32_t words[config::width];
      float w[config::width];
      fetch<Type>(r.weight + dim * static_cast<int>(sizeof(typename Type::Raw)), words);
      widen<Type>(words, w);
#pragma unroll
      for (int j = 0; j < config::width; ++j) {
        row.x[c][j] = mul_rn(mul_rn(row.x[c][j], inverse), add_rn(w[j], a.norm_weight_offset));
      }
    });
  });
}

inline void turn(float& a, float& b, float cos, float sin) {
  const float was = a;
  a = sub_rn(mul_rn(was, cos), mul_rn(b, sin));
  b = add_rn(mul_rn(b, cos), mul_rn(was, sin));
}

inline void turn_row(const KvAppendBlock& a, const AppendShape& s, const Task& t, const float* cos, const float* sin,
                     Row& row) {
#pragma unroll(kUnrolled / 2)
  for (int u = 0; u < config::units; ++u) {
    const int unit = lane_of(s) + (u << s.lane_bits);
    if (unit < s.pairs && t.dims[2 * u] < s.d) {
      u32_t c[config::width], d[config::width];
      fetch<F32>(reinterpret_cast<const char*>(cos + unit * config::width), c);
      fetch<F32>(reinterpret_cast<const char*>(sin + unit * config::width), d);
#pragma unroll
      for (int j = 0; j < config::width; ++j) {
        turn(row.x[2 * u][j], row.x[2 * u + 1][j], float_of_bits(c[j]), float_of_bits(d[j]));
      }
    }
  }
  if (config::width == 1 || a.style != RopeStyle::gptj) return;
  for_chunks(s, t, [&](int c, int dim) {
    if (dim < s.turned || dim >= s.turned + s.turns) return;
#pragma unroll
    for (int j = 0; j + 1 < config::width; j += 2) {
      const int pair = (dim - s.turned + j) / 2;
      turn(row.x[c][j], row.x[c][j + 1], cos[pair], sin[pair]);
    }
  });
}

inline u32_t magnitude(const float (&x)[config::width]) {
  u32_t most = 0;
#pragma unroll
  for (int j = 0; j < config::width; ++j) {
    const u32_t bits = bits_of_float(x[j]) & 0x7FFFFFFFu;
    most = bits > most ? bits : most;
  }
  return most;
}

// A value is finite where the bits of its magnitude are below this.
constexpr u32_t infinite_bits() {
  return 0x7F800000u;
}

// The scale for max|x| of the given bits. 0: zeros are stored.
inline float scale_of(Dtype type, u32_t most, u32_t& bits) {
  float value = 0;
  bits = most == 0 || most >= infinite_bits() ? 0 : computed_scale(type, float_of_bits(most), value);
  return value;
}

inline void store_scale(Dtype type, u32_t bits, char* to) {
  if (type == Dtype::f32) {
    *reinterpret_cast<u32_t*>(to) = bits;
  } else {
    *reinterpret_cast<u16_t*>(to) = static_cast<u16_t>(bits);
  }
}

// A NaN keeps its sign and payload, as on the CPU; the device's division would not.
inline void divide(float scale, float (&x)[config::width]) {
#pragma unroll
  for (int j = 0; j < config::width; ++j) {
    const bool nan = x[j] != x[j];
    const float quotient = scale == 0 ? 0.0f : x[j] / scale;
    x[j] = nan && scale != 0 ? float_of_bits(bits_of_float(x[j]) | 0x400000u) : quotient;
  }
}

// Divides the main part by its scale; stores computed scales. Returns how many units of a scale held NaN or Inf, in the
// lane that stores their scale.
inline int scale_row(const AppendRows& r, const Task& t, KvSlot slot, u32_t* most, Row& row) {
  char* scale_at = kv_address(r.scale, slot, t.head);
  int bad = 0;
  if (r.scale_kind == ScaleKind::group) {
    most += (group_of(r.shape) << r.shape.lane_bits) * kRowChunks;
    __syncwarp();
    for (int i = 0; i < kRowChunks; ++i) most[lane_of(r.shape) + (i << r.shape.lane_bits)] = 0;
    __syncwarp();
    for_chunks(r.shape, t, [&](int c, int dim) {
      if (dim < r.shape.main) atomicMax(&most[dim / r.scale_group], magnitude(row.x[c]));
    });
    __syncwarp();
    for_chunks(r.shape, t, [&](int c, int dim) {
      if (dim >= r.shape.main) return;
      const int group = dim / r.scale_group;
      u32_t bits;
      divide(scale_of(r.scale_type, most[group], bits), row.x[c]);
      if (dim != group * r.scale_group) return;
      store_scale(r.scale_type, bits, scale_at + group * dtype_block_bytes(r.scale_type));
      bad += most[group] >= infinite_bits();
    });
    return bad;
  }
  float scale = 0;
  if (r.scale_kind == ScaleKind::token_head) {
    u32_t largest = 0;
    for_chunks(r.shape, t, [&](int c, int dim) {
      const u32_t here = magnitude(row.x[c]);
      if (dim < r.shape.main && here > largest) largest = here;
    });
    largest = group_most(largest, r.shape.lanes);
    u32_t bits;
    scale = scale_of(r.scale_type, largest, bits);
    if (lane_of(r.shape) == 0 && t.dims[0] < r.shape.d) {
      store_scale(r.scale_type, bits, scale_at);
      bad = largest >= infinite_bits();
    }
  } else if (t.dims[0] < r.shape.d) {
    scale = float_at(scale_at, r.scale_type);
  }
  for_chunks(r.shape, t, [&](int c, int dim) {
    if (dim < r.shape.main) divide(scale, row.x[c]);
  });
  return bad;
}

inline void store_row(const AppendRows& r, const Task& t, KvSlot slot, const Row& row) {
  char* const to = kv_address(r.to, slot, t.head);
  for_chunks(r.shape, t, [&](int c, int dim) {
    const bool in_tail = dim >= r.shape.main;
    const Dtype to_type = in_tail ? r.tail_type : r.to_type;
    char* const part = in_tail ? kv_address(r.tail, slot, t.head) : to;
    const int first = in_tail ? dim - r.shape.main : dim;
    with_float_type(to_type, [&](auto tag) {
      using Type = decltype(tag);
      u32_t words[config::width];
      narrow<Type>(row.x[c], words);
#pragma unroll
      for (int j = 0; j < config::width; ++j) words[j] = copies(r, dim) ? bits_of_float(row.x[c][j]) : words[j];
      put<Type>(part + first * static_cast<int>(sizeof(typename Type::Raw)), words);
    });
  });
}

// The rest of a row's way. `whole` false: its position is no use, so it counts as zeros.
inline int finish_row(const KvAppendBlock& a, const AppendRows& r, const Task& t, KvSlot slot, bool whole,
                      const float* cos, const float* sin, u32_t* most, const RawRow& raw) {
  Row row = {};
  with_input_type(r.type, [&](auto type) {
    for_chunks(r.shape, t, [&](int c, int dim) {
      if (copies(r, dim)) {
#pragma unroll
        for (int j = 0; j < config::width; ++j) row.x[c][j] = float_of_bits(raw.words[c][j]);
      } else {
        widen<decltype(type)>(raw.words[c], row.x[c]);
      }
    });
  });
  if (r.weight != nullptr) norm_row(a, r, t, row);
  if (r.shape.turns) turn_row(a, r.shape, t, cos, sin, row);
  if (r.round) {
    with_input_type(r.type, [&](auto type) {
      for_chunks(r.shape, t, [&](int c, int) {
        u32_t words[config::width];
        narrow<decltype(type)>(row.x[c], words);
        widen<decltype(type)>(words, row.x[c]);
      });
    });
  }
  if (!whole) row = {};
  const int bad = r.scale_kind == ScaleKind::none ? 0 : scale_row(r, t, slot, most, row);
  store_row(r, t, slot, row);
  return bad;
}

// The first position row of a token that is out of range; -1: none is.
inline int bad_position(const KvAppendBlock& a, i64_t token) {
  for (int r = 0; r < a.position_rows; ++r) {
    const i64_t position = a.positions.at(r, token);
    if (position < 0 || position >= a.position_limit) return r;
  }
  return -1;
}

inline void make_angles(const KvAppendBlock& a, i64_t token, const double* inv_freq, float* cos, float* sin) {
  for (int i = static_cast<int>(threadIdx.x); i < a.rotary_dim / 2; i += static_cast<int>(blockDim.x)) {
    const i64_t position = a.positions.at(a.position_rows > 1 ? a.table.position_row[i] : 0, token);
    if (a.cos.data != nullptr) {
      cos[i] = a.cos.f32_at(position, i);
      sin[i] = a.sin.f32_at(position, i);
    } else {
      rotary_cos_sin(position, inv_freq[i], a.table.amplitude, cos[i], sin[i]);
    }
  }
}

// Tasks of one kind of rows for a token.
inline int tasks_of(const AppendRows& r) {
  return ((r.heads << r.shape.lane_bits) + 31) / 32;
}

inline Task make_task(const KvAppendBlock& a, int index) {
  const int k = tasks_of(a.rows[0]), kv = k + tasks_of(a.rows[1]);
  Task t;
  t.kind = index < k ? 0 : index < kv ? 1 : 2;
  const AppendRows& r = a.rows[t.kind];
  index -= t.kind == 0 ? 0 : t.kind == 1 ? k : kv;
  t.head = index * (32 >> r.shape.lane_bits) + group_of(r.shape);
#pragma unroll(kUnrolled)
  for (int c = 0; c < kRowChunks; ++c) {
    const int dim = append_chunk(r.shape, config::width, lane_of(r.shape) + (c / 2 << r.shape.lane_bits), c % 2);
    t.dims[c] = t.head < r.heads ? dim : r.shape.d;
  }
  return t;
}

inline void report_token(const KvAppendBlock& a, i64_t token, bool past, int bad_row) {
  if (threadIdx.x != 0 || (!past && bad_row < 0)) return;
  report_status(a.status, StatusCode::invalid_value);
  if (past) report_first(a.report, static_cast<int>(AppendReport::slot), token);
  if (bad_row >= 0) {
    report_first(a.report, static_cast<int>(AppendReport::position), token * a.position_rows + bad_row);
  }
}

// kv_slot, where most slots need no division of 64 bits.
inline KvSlot slot_of(i64_t id, int page_size) {
  if (id >> 32 != 0) return kv_slot(id, page_size);
  const u32_t low = static_cast<u32_t>(id), size = static_cast<u32_t>(page_size);
  const u32_t page = low / size;
  return {page, low - page * size};
}

extern "C" __global__ void __launch_bounds__(kAppendWarps * 32, 1)
    kv_append(const __grid_constant__ KvAppendBlock args) {
  start_grid();
  const AppendSmem smem = append_smem(args.rotary_dim / 2);
  char* const memory = dynamic_smem();
  double* const inv_freq = reinterpret_cast<double*>(memory + smem.inv_freq);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int tasks = tasks_of(args.rows[0]) + tasks_of(args.rows[1]) + tasks_of(args.rows[2]);
  const bool has_q = args.rows[2].heads > 0;
  if (args.rotary_dim) {
    for (int i = static_cast<int>(threadIdx.x); i < args.rotary_dim / 2; i += static_cast<int>(blockDim.x)) {
      inv_freq[i] = args.table.inv_freq[i];
    }
    __syncthreads();
  }
  const Task first = make_task(args, warp);
  int buffer = 0;
  i64_t next_slot = blockIdx.x < args.tokens ? args.slot_mapping.at(0, blockIdx.x) : 0;
  for (i64_t token = blockIdx.x; token < args.tokens; token += gridDim.x) {
    const i64_t slot_id = next_slot;  // loaded one token ahead: the rows' loads wait for nothing
    if (token + gridDim.x < args.tokens) next_slot = args.slot_mapping.at(0, token + gridDim.x);
    const KvSlot slot = slot_of(slot_id < 0 ? 0 : slot_id, args.page_size);
    const bool past = slot_id >= 0 && slot.page >= args.pages, in_pool = slot_id >= 0 && !past;
    const bool turns = args.rotary_dim && (in_pool || has_q);
    if (args.check_only || !(in_pool || has_q)) {  // the same for the whole block
      report_token(args, token, past, turns ? bad_position(args, token) : -1);
      continue;
    }
    float* const cos = reinterpret_cast<float*>(memory + smem.angles + buffer * smem.angle_bytes);
    float* const sin = reinterpret_cast<float*>(memory + smem.angles + (2 + buffer) * smem.angle_bytes);
    bool whole = true;
    int index = warp;
    do {
      const Task task = index == warp ? first : make_task(args, index);
      const AppendRows& r = args.rows[task.kind];
      RawRow raw;
      if (in_pool || !r.needs_slot) fetch_row(r, task, token, raw);
      if (index == warp) {
        const int bad_row = turns ? bad_position(args, token) : -1;
        report_token(args, token, past, bad_row);
        whole = bad_row < 0;
        if (turns) {
          if (whole) make_angles(args, token, inv_freq, cos, sin);
          __syncthreads();
        }
      }
      index += warps;
      if (r.needs_slot && !(in_pool && whole)) continue;
      const KvSlot to = r.needs_slot ? slot : KvSlot{0, token};
      u32_t* const most = reinterpret_cast<u32_t*>(memory + smem.most) + warp * kRowChunks * 32;
      const int bad = finish_row(args, r, task, to, whole, cos, sin, most, raw);
      if (bad > 0) {
        report_status(args.status, StatusCode::invalid_value);
        report_count(args.report, static_cast<u64_t>(bad));
      }
    } while (index < tasks);
    buffer ^= 1;
  }
}

}  // namespace fovea
