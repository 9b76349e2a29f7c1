// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/tensor_map.h"

#include <string>

namespace fovea::cuda {

namespace {

std::string of_dimension(const char* what, int i) {
  return std::string(what) + "[" + std::to_string(i) + "]";
}

int type_of(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return tensor_map::uint8;
    case 2:
      return tensor_map::uint16;
    case 4:
      return tensor_map::uint32;
    default:
      return tensor_map::uint64;
  }
}

int swizzle_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::span32:
      return tensor_map::swizzle_32;
    case Swizzle::span64:
      return tensor_map::swizzle_64;
    case Swizzle::span128:
      return tensor_map::swizzle_128;
    case Swizzle::none:
      break;
  }
  return tensor_map::no_swizzle;
}

}  // namespace

Status check_tensor_map(const TensorMapSpec& spec) {
  if (spec.rank < 2 || spec.rank > TensorMapSpec::kMaxRank)
    return invalid_value("rank", spec.rank, "must be in [2, 5]");
  const int size = spec.element_bytes;
  if (size != 1 && size != 2 && size != 4 && size != 8) {
    return invalid_value("element_bytes", size, "must be 1, 2, 4 or 8");
  }
  const auto address = reinterpret_cast<uintptr_t>(spec.base);
  if (address == 0 || address % 16 != 0)
    return invalid_value("base", std::to_string(address), "must be a multiple of 16");
  for (int i = 0; i < spec.rank; ++i) {
    if (spec.sizes[i] < 1 || spec.sizes[i] > 0xFFFFFFFF) {
      return invalid_value(of_dimension("sizes", i), spec.sizes[i], "must be in [1, 2^32)");
    }
    if (i > 0 && (spec.strides[i] < 16 || spec.strides[i] % 16 != 0 || spec.strides[i] >= int64_t{1} << 40)) {
      return invalid_value(of_dimension("strides", i), spec.strides[i], "must be a multiple of 16 in [16, 2^40) bytes");
    }
    if (spec.box[i] < 1 || spec.box[i] > 256) {
      return invalid_value(of_dimension("box", i), spec.box[i], "must be in [1, 256]");
    }
  }
  const int row = spec.box[0] * size, span = span_bytes(spec.swizzle);
  if (row % 16 != 0) return invalid_value("box[0]", spec.box[0], "must be a multiple of 16 bytes");
  if (span != 0 && row > span) {
    return invalid_value("box[0]", spec.box[0], "must be at most the swizzle's " + std::to_string(span) + " bytes");
  }
  return {};
}

Status encode_tensor_map(const Driver& driver, const TensorMapSpec& spec, TensorMap& out) {
  FOVEA_TRY(check_tensor_map(spec));
  uint64_t sizes[TensorMapSpec::kMaxRank] = {}, strides[TensorMapSpec::kMaxRank] = {};
  unsigned box[TensorMapSpec::kMaxRank] = {}, element_strides[TensorMapSpec::kMaxRank] = {};
  for (int i = 0; i < spec.rank; ++i) {
    sizes[i] = static_cast<uint64_t>(spec.sizes[i]);
    box[i] = static_cast<unsigned>(spec.box[i]);
    element_strides[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<uint64_t>(spec.strides[i]);
  }
  TensorMap map;
  FOVEA_TRY(driver.call(driver.api().tensor_map_encode_tiled, static_cast<void*>(&map), type_of(spec.element_bytes),
                        static_cast<unsigned>(spec.rank), const_cast<void*>(spec.base), sizes, strides, box,
                        element_strides, tensor_map::no_interleave, swizzle_of(spec.swizzle),
                        tensor_map::l2_promotion_256, tensor_map::fill_zeros));
  out = map;
  return {};
}

}  // namespace fovea::cuda
