// SPDX-License-Identifier: Apache-2.0
#include "base/tensor.h"

#include <algorithm>

namespace fovea {

namespace {

std::string type_list(std::span<const int32_t> types) {
  std::string text = types.size() == 1 ? "must be " : "must be one of ";
  for (size_t i = 0; i < types.size(); ++i) text += (i ? ", " : "") + std::string(find_dtype(types[i])->name);
  return text;
}

std::string dim_name(const char* name, int dim) {
  return std::string(name) + ".shape[" + std::to_string(dim) + "]";
}

std::string place_text(int32_t type, int32_t id) {
  if (type == FOVEA_CPU) return "cpu";
  const std::string kind = type == FOVEA_CUDA    ? "cuda"
                           : type == FOVEA_METAL ? "metal"
                                                 : "device type " + std::to_string(type);
  return kind + ":" + std::to_string(id);
}

}  // namespace

int64_t elements(const fovea_tensor& t) {
  int64_t n = 1;
  for (int i = 0; i < t.rank; ++i) n *= t.shape[i];
  return n;
}

std::string shape_text(const fovea_tensor& t) {
  std::string text = "[";
  for (int i = 0; i < std::clamp(t.rank, 0, FOVEA_MAX_RANK); ++i) text += (i ? ", " : "") + std::to_string(t.shape[i]);
  return text + "]";
}

namespace {

// Every element must be within 2^59 elements of the first, so that no offset in bytes overflows 64 bits.
Status check_reach(const char* name, const fovea_tensor& t) {
  constexpr int64_t kMost = int64_t{1} << 59;
  int64_t reach = 0;
  for (int i = 0; i < t.rank; ++i) {
    int64_t step = 0;
    if (t.shape[i] < 2) continue;
    const bool over = __builtin_mul_overflow(t.shape[i] - 1, t.stride[i], &step) || step < -kMost || step > kMost;
    if (!over) reach += step < 0 ? -step : step;
    if (over || reach > kMost) {
      return invalid_value(std::string(name) + ".stride[" + std::to_string(i) + "]", t.stride[i],
                           "reaches beyond every memory");
    }
  }
  return {};
}

}  // namespace

Status check_tensor(const char* name, const fovea_tensor& t, std::span<const int32_t> types, int min_rank, int max_rank,
                    Place place, LastStride last) {
  if (std::find(types.begin(), types.end(), t.dtype) == types.end())
    return invalid_type(name, t.dtype, type_list(types));
  if (t.rank < min_rank || t.rank > max_rank) {
    const std::string allowed = min_rank == max_rank
                                    ? "must be " + std::to_string(min_rank)
                                    : "must be " + std::to_string(min_rank) + " to " + std::to_string(max_rank);
    return invalid_value(std::string(name) + ".rank", t.rank, allowed);
  }
  const bool same_id = place.device_type == FOVEA_CPU || t.device_id == place.device_id;
  if (t.device_type != place.device_type || !same_id) {
    return invalid_value(std::string(name) + ".device", place_text(t.device_type, t.device_id),
                         "the context is on " + place_text(place.device_type, place.device_id));
  }
  int64_t count = 1;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] < 0) return invalid_value(dim_name(name, i), t.shape[i], "must not be negative");
    if (__builtin_mul_overflow(count, std::max<int64_t>(t.shape[i], 1), &count)) {
      return invalid_value(std::string(name) + ".shape", shape_text(t), "has more elements than 64 bits count");
    }
  }
  FOVEA_TRY(check_reach(name, t));
  const int block = dtype_block(dtype(t));
  const int inner = t.rank - 1;
  if (inner >= 0 && t.shape[inner] % block != 0) {
    return invalid_value(dim_name(name, inner), t.shape[inner],
                         "must be a multiple of the block of " + std::to_string(block));
  }
  for (int i = 0; i < inner; ++i) {
    if (t.stride[i] % block != 0) {
      return invalid_value(std::string(name) + ".stride[" + std::to_string(i) + "]", t.stride[i],
                           "must be a multiple of the block of " + std::to_string(block));
    }
  }
  if (last == LastStride::one && inner >= 0 && t.shape[inner] > 1 && t.stride[inner] != 1) {
    return invalid_value(std::string(name) + ".stride[" + std::to_string(inner) + "]", t.stride[inner], "must be 1");
  }
  return {};
}

Status check_dim(const char* name, const fovea_tensor& t, int dim, int64_t expected, const char* why) {
  if (t.shape[dim] == expected) return {};
  return invalid_value(dim_name(name, dim), t.shape[dim], "must be " + std::to_string(expected) + " (" + why + ")");
}

Status check_same_shape(const char* name, const fovea_tensor& t, const char* other_name, const fovea_tensor& other) {
  const bool same = t.rank == other.rank && std::equal(t.shape, t.shape + t.rank, other.shape);
  if (same) return {};
  return invalid_value(std::string(name) + ".shape", shape_text(t),
                       "must be " + shape_text(other) + " (" + other_name + ")");
}

Status check_writable(const char* name, const fovea_tensor& t) {
  if (elements(t) == 0) return {};
  const auto step = [&](int i) { return t.stride[i] < 0 ? -t.stride[i] : t.stride[i]; };
  int order[FOVEA_MAX_RANK];  // dimensions of more than one element, by stride
  int dims = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] < 2) continue;
    int at = dims++;
    for (; at > 0 && step(order[at - 1]) > step(i); --at) order[at] = order[at - 1];
    order[at] = i;
  }
  int64_t inner = 0;  // elements between the first and the last that the smaller strides reach
  for (int k = 0; k < dims; ++k) {
    const int i = order[k];
    if (step(i) <= inner) {
      return invalid_value(std::string(name) + ".stride[" + std::to_string(i) + "]", t.stride[i],
                           "an output must not repeat elements");
    }
    inner += step(i) * (t.shape[i] - 1);
  }
  return {};
}

Status check_in_place(const char* name, const fovea_tensor& out, const char* other_name, const fovea_tensor& other) {
  if (out.data != other.data || elements(out) == 0) return {};
  bool same = out.dtype == other.dtype && out.rank == other.rank;
  for (int i = 0; same && i < out.rank; ++i) same = out.shape[i] == 1 || out.stride[i] == other.stride[i];
  if (same) return {};
  return invalid_value(name, std::string(other_name) + " in another type or with other strides",
                       std::string("in place it must be ") + other_name + " itself");
}

Status check_data(const char* name, const fovea_tensor& t) {
  if (!present(t) || elements(t) == 0) return {};
  if (t.data == nullptr) return invalid_value(std::string(name) + ".data", "null", "a call needs its memory");
  const int bytes = dtype_block(dtype(t)) == 1 ? dtype_block_bytes(dtype(t)) : 1;
  if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(bytes) == 0) return {};
  return invalid_value(std::string(name) + ".data", "misaligned",
                       "must be a multiple of the element's " + std::to_string(bytes) + " bytes");
}

Status check_absent(const char* name, const fovea_tensor& t, const char* why) {
  if (!present(t)) return {};
  return invalid_value(name, "given", why);
}

}  // namespace fovea
