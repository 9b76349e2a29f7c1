// SPDX-License-Identifier: Apache-2.0
#include "quantize.h"

#include <algorithm>
#include <numeric>

#include "error.h"

namespace fovea::app {
namespace {

struct Type {
  const char* name;
  int32_t dtype;
  int64_t block;  // weights
  bool taken;
};
constexpr Type kTypes[] = {
#define FOVEA_DTYPE(name, NAME, value, block, bytes) {#name, value, block, (block) > 1 || (value) == FOVEA_E4M3},
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
};

// Blocks of 256 do not fit the rows of many models: the type of blocks of 32 that is next in size takes their place.
struct Instead {
  int32_t dtype, instead;
};
constexpr Instead kInstead[] = {{FOVEA_Q2_K, FOVEA_IQ4_NL},
                                {FOVEA_Q3_K, FOVEA_IQ4_NL},
                                {FOVEA_Q4_K, FOVEA_Q5_0},
                                {FOVEA_Q5_K, FOVEA_Q5_1},
                                {FOVEA_Q6_K, FOVEA_Q8_0}};

constexpr int64_t kChunk = 1 << 20;  // weights that are in f32 at a time
constexpr int64_t kAlign = 64;       // of values behind their scales, in bytes

const Type& row_of(int32_t dtype) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return t.dtype == dtype; });
}

}  // namespace

std::string quantized_type_names() {
  std::string names;
  for (const Type& type : kTypes) {
    if (type.taken) names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  return names;
}

int32_t parse_quantized_type(const std::string& name) {
  for (const Type& type : kTypes) {
    if (type.taken && type.name == name) return type.dtype;
  }
  throw Error("--isq is " + name + ": must be one of " + quantized_type_names());
}

int32_t type_for_rows(int32_t type, int64_t columns) {
  const Type& t = row_of(type);
  if (columns % t.block == 0) return type;
  for (const Instead& row : kInstead) {
    if (row.dtype == type) return type_for_rows(row.instead, columns);
  }
  throw Error("has rows of " + std::to_string(columns) + " weights: " + t.name + " needs a multiple of " +
              std::to_string(t.block));
}

Quantized quantized(const Context& context, const Matrix& from, int32_t type) {
  const int64_t rows = from.values.shape[0], columns = from.values.shape[1];
  const int64_t step = std::clamp<int64_t>(kChunk / std::max<int64_t>(columns, 1), 1, std::max<int64_t>(rows, 1));
  const bool scaled = type == FOVEA_E4M3;
  const int64_t scale_bytes = scaled ? (rows * 4 + kAlign - 1) / kAlign * kAlign : 0;  // they lie in front
  Quantized out;
  out.memory.resize(static_cast<size_t>(scale_bytes + fovea_dtype_bytes(type, rows * columns)));
  std::byte* const values = out.memory.data() + scale_bytes;
  auto* const scales = reinterpret_cast<float*>(out.memory.data());
  out.matrix.values = tensor(values, type, {rows, columns});
  if (scaled) out.matrix.scale = tensor(scales, {rows});
  std::vector<float> chunk(static_cast<size_t>(step * columns));
  std::vector<int32_t> ids(static_cast<size_t>(step));
  uint32_t status = FOVEA_OK;
  HostWorkspace workspace;
  const auto decode = [&](int64_t n) {
    return EmbedParams{.ids = tensor(ids.data(), {n}),
                       .table = from.values,
                       .table_scale = from.scale,
                       .out = tensor(chunk.data(), {n, columns})};
  };
  const auto encode = [&](int64_t first, int64_t n) {
    QuantizeParams p{.x = tensor(chunk.data(), {n, columns}),
                     .out = tensor(values + fovea_dtype_bytes(type, first * columns), type, {n, columns})};
    if (scaled) p.scale = tensor(scales + first, {n});
    return p;
  };
  const Plan<EmbedParams> decoding = context.plan(decode(step));
  const Plan<QuantizeParams> encoding = context.plan(encode(0, step));
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t n = std::min(step, rows - first);
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(first));
    decoding.run(decode(n), {});
    Exec exec = workspace.exec(encoding);
    exec.status = &status;
    encoding.run(encode(first, n), exec);
  }
  if (status != FOVEA_OK) throw Error("has weights that are not finite");
  return out;
}

}  // namespace fovea::app
