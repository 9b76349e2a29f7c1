// SPDX-License-Identifier: Apache-2.0
#include "base/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

namespace fovea {
namespace {

fovea_tensor f32_view(std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride) {
  fovea_tensor t{.dtype = FOVEA_F32, .rank = static_cast<int32_t>(shape.size())};
  std::copy(shape.begin(), shape.end(), t.shape);
  std::copy(stride.begin(), stride.end(), t.stride);
  return t;
}

TEST(CheckWritable, TakesLayoutsWhoseElementsLieApart) {
  EXPECT_TRUE(check_writable("out", f32_view({2, 4}, {4, 1})).ok());
  EXPECT_TRUE(check_writable("out", f32_view({2, 4}, {1, 2})).ok());
  EXPECT_TRUE(check_writable("out", f32_view({2, 4}, {-4, 1})).ok());
  EXPECT_TRUE(check_writable("out", f32_view({3, 2, 4}, {4, 12, 1})).ok());
  EXPECT_TRUE(check_writable("out", f32_view({1, 4}, {0, 1})).ok());
  EXPECT_TRUE(check_writable("out", f32_view({0, 4}, {0, 1})).ok());
}

TEST(CheckWritable, RefusesElementsThatShareMemory) {
  EXPECT_FALSE(check_writable("out", f32_view({2, 4}, {0, 1})).ok());
  EXPECT_FALSE(check_writable("out", f32_view({2, 4}, {-3, 1})).ok());
  const Status status = check_writable("out", f32_view({2, 4}, {2, 1}));
  EXPECT_EQ(status.code(), FOVEA_INVALID_VALUE);
  EXPECT_EQ(status.message(), "out.stride[0] is 2: an output must not repeat elements");
}

TEST(CheckData, WantsElementsAligned) {
  float memory[3];
  fovea_tensor t = f32_view({2}, {1});
  t.data = memory;
  EXPECT_TRUE(check_data("x", t).ok());
  t.data = reinterpret_cast<char*>(memory) + 2;
  EXPECT_EQ(check_data("x", t).message(), "x.data is misaligned: must be a multiple of the element's 4 bytes");
  t.data = nullptr;
  EXPECT_EQ(check_data("x", t).message(), "x.data is null: a call needs its memory");
}

}  // namespace
}  // namespace fovea
