// SPDX-License-Identifier: Apache-2.0
#include "fovea/dlpack.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "fovea/fovea.h"

namespace {

// The memory layout of DLPack 1.x's DLTensor: data, {device_type, device_id}, ndim, {code, bits, lanes}, shape,
// strides, byte_offset.
static_assert(offsetof(fovea_dl_tensor, device_type) == 8 && offsetof(fovea_dl_tensor, device_id) == 12);
static_assert(offsetof(fovea_dl_tensor, ndim) == 16 && offsetof(fovea_dl_tensor, type_code) == 20);
static_assert(offsetof(fovea_dl_tensor, type_bits) == 21 && offsetof(fovea_dl_tensor, type_lanes) == 22);
static_assert(offsetof(fovea_dl_tensor, shape) == 24 && offsetof(fovea_dl_tensor, strides) == 32);
static_assert(offsetof(fovea_dl_tensor, byte_offset) == 40 && sizeof(fovea_dl_tensor) == 48);

struct Source {
  std::vector<int64_t> shape = {2, 3, 5};
  std::vector<int64_t> strides = {};
  float memory[64] = {};
  fovea_dl_tensor dl(uint8_t code = 2, uint8_t bits = 32) {
    return {.data = memory,
            .device_type = 1,
            .device_id = 0,
            .ndim = static_cast<int32_t>(shape.size()),
            .type_code = code,
            .type_bits = bits,
            .type_lanes = 1,
            .shape = shape.data(),
            .strides = strides.empty() ? nullptr : strides.data(),
            .byte_offset = 0};
  }
};

TEST(DlPack, NullStridesArePacked) {
  Source s;
  const fovea_dl_tensor dl = s.dl();
  fovea_tensor t;
  ASSERT_EQ(fovea_tensor_from_dlpack(&dl, &t), FOVEA_OK);
  EXPECT_EQ(t.data, s.memory);
  EXPECT_EQ(t.dtype, FOVEA_F32);
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.shape[2], 5);
  EXPECT_EQ(t.stride[0], 15);
  EXPECT_EQ(t.stride[1], 5);
  EXPECT_EQ(t.stride[2], 1);
}

TEST(DlPack, KeepsStridesOffsetAndDevice) {
  Source s;
  s.strides = {1, -7, 20};
  fovea_dl_tensor dl = s.dl();
  dl.byte_offset = 24;
  dl.device_type = 2;
  dl.device_id = 3;
  fovea_tensor t;
  ASSERT_EQ(fovea_tensor_from_dlpack(&dl, &t), FOVEA_OK);
  EXPECT_EQ(t.data, s.memory + 6);
  EXPECT_EQ(t.device_type, FOVEA_CUDA);
  EXPECT_EQ(t.device_id, 3);
  EXPECT_EQ(t.stride[1], -7);
  EXPECT_EQ(t.stride[2], 20);
}

TEST(DlPack, EveryElementTypeOfTheTable) {
  struct Row {
    uint8_t code, bits;
    int32_t dtype;
  };
  const Row rows[] = {{2, 32, FOVEA_F32},  {2, 16, FOVEA_F16}, {4, 16, FOVEA_BF16},
                      {10, 8, FOVEA_E4M3}, {1, 8, FOVEA_U8},   {0, 32, FOVEA_I32},
                      {1, 32, FOVEA_U32},  {0, 64, FOVEA_I64}, {1, 64, FOVEA_U64}};
  Source s;
  for (const Row& row : rows) {
    const fovea_dl_tensor dl = s.dl(row.code, row.bits);
    fovea_tensor t;
    ASSERT_EQ(fovea_tensor_from_dlpack(&dl, &t), FOVEA_OK);
    EXPECT_EQ(t.dtype, row.dtype);
    EXPECT_EQ(fovea_dtype_bytes(t.dtype, 1) * 8, row.bits);
  }
}

TEST(DlPack, ScalarsAndEmptyTensors) {
  Source s;
  s.shape = {};
  fovea_dl_tensor dl = s.dl();
  dl.shape = nullptr;
  fovea_tensor t;
  ASSERT_EQ(fovea_tensor_from_dlpack(&dl, &t), FOVEA_OK);
  EXPECT_EQ(t.rank, 0);
  s.shape = {4, 0, 3};
  dl = s.dl();
  dl.data = nullptr;
  dl.byte_offset = 8;
  ASSERT_EQ(fovea_tensor_from_dlpack(&dl, &t), FOVEA_OK);
  EXPECT_EQ(t.data, nullptr);
  EXPECT_EQ(t.shape[1], 0);
}

TEST(DlPack, RefusesWhatHasNoRowAndLeavesTheOutputAlone) {
  Source s;
  fovea_tensor t;
  t.rank = 77;
  const auto code = [&](const fovea_dl_tensor& dl) { return fovea_tensor_from_dlpack(&dl, &t); };
  EXPECT_EQ(code(s.dl(2, 64)), FOVEA_INVALID_TYPE);
  EXPECT_STREQ(fovea_last_error(), "dl.type_code is 2 and dl.type_bits 64: no such element type");
  EXPECT_EQ(code(s.dl(0, 8)), FOVEA_INVALID_TYPE);
  fovea_dl_tensor dl = s.dl();
  dl.type_lanes = 4;
  EXPECT_EQ(code(dl), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "dl.type_lanes is 4: must be 1");
  s.shape.assign(FOVEA_MAX_RANK + 1, 1);
  EXPECT_EQ(code(s.dl()), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "dl.ndim is 6: must be 0 to 5");
  dl = s.dl();
  dl.ndim = -1;
  EXPECT_EQ(code(dl), FOVEA_INVALID_VALUE);
  dl = s.dl();
  dl.ndim = 2;
  dl.shape = nullptr;
  EXPECT_EQ(code(dl), FOVEA_INVALID_VALUE);
  s.shape = {2, -1};
  EXPECT_EQ(code(s.dl()), FOVEA_INVALID_VALUE);
  s.shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ(code(s.dl()), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_tensor_from_dlpack(nullptr, &t), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_tensor_from_dlpack(&dl, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(t.rank, 77);
}

}  // namespace
