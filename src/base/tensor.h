// SPDX-License-Identifier: Apache-2.0
// Checks of tensors that every operation shares. `name` is the argument's name in the user's words ("q").
// Shapes and types are checked when planning; pointers only when a call binds them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "shared/dtype.h"

namespace fovea {

inline bool present(const fovea_tensor& t) {
  return t.dtype != FOVEA_DTYPE_NONE;
}
inline Dtype dtype(const fovea_tensor& t) {
  return static_cast<Dtype>(t.dtype);
}
inline bool is_index(const fovea_tensor& t) {
  return t.dtype == FOVEA_I32 || t.dtype == FOVEA_I64;
}
inline bool is_float(int32_t dtype) {
  return dtype == FOVEA_F32 || dtype == FOVEA_F16 || dtype == FOVEA_BF16;
}

int64_t elements(const fovea_tensor& t);
std::string shape_text(const fovea_tensor& t);  // "[2, 8, 64]"

// The sets of types that parameters name.
inline constexpr int32_t kFloatTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
inline constexpr int32_t kFloatOrE4m3[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_E4M3};
inline constexpr int32_t kIndexTypes[] = {FOVEA_I32, FOVEA_I64};
inline constexpr int32_t kF32[] = {FOVEA_F32};
inline constexpr int32_t kU32[] = {FOVEA_U32};

// Where the operation runs: every tensor of a call must be there.
struct Place {
  int32_t device_type;
  int32_t device_id;
};

enum class LastStride { one, any };

// Present, of one of `types`, rank in [min_rank, max_rank], no negative dimension, on `place`, last stride 1 unless
// `any` (a last dimension of at most one element has no stride to speak of). Block types: only whole blocks.
Status check_tensor(const char* name, const fovea_tensor& t, std::span<const int32_t> types, int min_rank, int max_rank,
                    Place place, LastStride last = LastStride::one);
// One dimension. `why` names what it has to match: "q.shape[1]".
Status check_dim(const char* name, const fovea_tensor& t, int dim, int64_t expected, const char* why);
// The same shape as another tensor.
Status check_same_shape(const char* name, const fovea_tensor& t, const char* other_name, const fovea_tensor& other);
// An output must not write one element twice: each stride steps over all that the smaller ones reach.
Status check_writable(const char* name, const fovea_tensor& t);
// Binding an output that may be one of the inputs: at the input's address it must be the same view, else it would write
// what is still to be read.
Status check_in_place(const char* name, const fovea_tensor& out, const char* other_name, const fovea_tensor& other);
// Binding: data must not be null, and aligned to its elements, unless the tensor is absent or empty.
Status check_data(const char* name, const fovea_tensor& t);
// An optional tensor must be absent; `why` says when it may be given.
Status check_absent(const char* name, const fovea_tensor& t, const char* why);

}  // namespace fovea
