// SPDX-License-Identifier: Apache-2.0
// The interface as C sees it.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "api/c_table.h"
#include "fovea/fovea.hpp"

namespace {

// The bytes of a struct: as its initialiser leaves them, and as C++ defaults are, both over zeros.
template <class T>
std::vector<std::byte> defaults() {
  std::vector<std::byte> bytes(sizeof(T) + alignof(T));
  void* at = bytes.data();
  size_t space = bytes.size();
  std::align(alignof(T), sizeof(T), at, space);
  new (at) T();
  const auto* first = static_cast<std::byte*>(at);
  return {first, first + sizeof(T)};
}

std::vector<std::byte> initialised(uint64_t size, void (*init)(void*)) {
  std::vector<std::byte> bytes(size);
  init(bytes.data());
  return bytes;
}

TEST(CInterface, EveryOperationHasItsRow) {
  int rows = 0;
#define FOVEA_OP(name_, Name, NAME, value, text)                                                          \
  {                                                                                                       \
    const c_operation& row = c_operations[rows++];                                                        \
    EXPECT_STREQ(row.name, #name_);                                                                       \
    EXPECT_EQ(row.op, value);                                                                             \
    EXPECT_STREQ(fovea_op_name(row.op), #name_);                                                          \
    ASSERT_EQ(row.size, sizeof(fovea::Name##Params));                                                     \
    EXPECT_EQ(initialised(row.size, row.init), defaults<fovea::Name##Params>()) << "defaults of " #name_; \
  }
#include "fovea/operations.def"
#undef FOVEA_OP
  EXPECT_EQ(rows, c_operation_count);
}

template <class T>
void expect_defaults(const c_struct& row) {
  ASSERT_EQ(row.size, sizeof(T)) << row.name;
  EXPECT_EQ(initialised(row.size, row.init), defaults<T>()) << row.name;
}

TEST(CInterface, OtherStructsHaveTheSameDefaults) {
  ASSERT_EQ(c_struct_count, 5);
  expect_defaults<fovea_context_params>(c_structs[0]);
  expect_defaults<fovea_device_info>(c_structs[1]);
  expect_defaults<fovea_exec>(c_structs[2]);
  expect_defaults<fovea_kv>(c_structs[3]);
  expect_defaults<fovea_rope_config>(c_structs[4]);
}

TEST(CInterface, InitialisersTakeNull) {
  for (int i = 0; i < c_operation_count; ++i) c_operations[i].init(nullptr);
  for (int i = 0; i < c_struct_count; ++i) c_structs[i].init(nullptr);
}

TEST(CInterface, AProgramInC) {
  EXPECT_EQ(c_program(), 0) << fovea_last_error();
}

TEST(CInterface, NullArgumentsAreNamed) {
  const fovea::Context context({.threads = 1});
  for (int i = 0; i < c_operation_count; ++i) {
    SCOPED_TRACE(c_operations[i].name);
    EXPECT_EQ(c_operations[i].call(context.get(), nullptr, nullptr), FOVEA_INVALID_VALUE);
    EXPECT_STREQ(fovea_last_error(), "params is null: must point to its struct");
    std::vector<std::byte> params = initialised(c_operations[i].size, c_operations[i].init);
    EXPECT_EQ(c_operations[i].call(nullptr, params.data(), nullptr), FOVEA_INVALID_VALUE);
    EXPECT_STREQ(fovea_last_error(), "context is null: must be a context");
    EXPECT_EQ(fovea_plan_create(context.get(), c_operations[i].op, params.data(), nullptr), FOVEA_INVALID_VALUE);
    EXPECT_STREQ(fovea_last_error(), "out is null: must point to where the plan goes");
    // Defaults alone are no call: every operation needs a tensor.
    EXPECT_NE(c_operations[i].call(context.get(), params.data(), nullptr), FOVEA_OK);
    EXPECT_STRNE(fovea_last_error(), "");
  }
  EXPECT_EQ(fovea_supports(context.get(), 0, nullptr), FOVEA_SUPPORT_NO);
  EXPECT_STREQ(fovea_last_error(), "op is 0: must be one of enum fovea_op");
  EXPECT_EQ(fovea_plan_run(nullptr, nullptr, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_plan_workspace(nullptr, nullptr, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_plan_explain(nullptr, nullptr, 0, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_context_info(nullptr, nullptr), FOVEA_INVALID_VALUE);
  fovea_plan_destroy(nullptr);
  fovea_context_destroy(nullptr);
}

TEST(CInterface, NamesOfEveryRowAndOfNone) {
#define FOVEA_STATUS(name, NAME, value, text) EXPECT_STREQ(fovea_status_name(FOVEA_##NAME), #name);
#include "fovea/status.def"
#undef FOVEA_STATUS
#define FOVEA_DTYPE(name, NAME, value, block, bytes)                \
  EXPECT_STREQ(fovea_dtype_name(FOVEA_##NAME), #name);              \
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_##NAME, 3 * block), 3 * bytes); \
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_##NAME, 0), 0);
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
#define FOVEA_CODEC(name, NAME, value, dtype) EXPECT_STREQ(fovea_codec_name(FOVEA_CODEC_##NAME), #name);
#include "fovea/codecs.def"
#undef FOVEA_CODEC
#define FOVEA_MASK(name, NAME, value, text) EXPECT_STREQ(fovea_mask_name(FOVEA_MASK_##NAME), #name);
#include "fovea/masks.def"
#undef FOVEA_MASK
#define FOVEA_SCALE_KIND(name, NAME, value, text) EXPECT_STREQ(fovea_scale_kind_name(FOVEA_SCALE_##NAME), #name);
#include "fovea/scale_kinds.def"
#undef FOVEA_SCALE_KIND
  for (const int32_t none : {-1, 1000, INT32_MAX, INT32_MIN}) {
    for (const char* (*name)(int32_t) : {fovea_status_name, fovea_dtype_name, fovea_op_name, fovea_codec_name,
                                         fovea_mask_name, fovea_scale_kind_name}) {
      EXPECT_STREQ(name(none), "?") << none;
    }
    EXPECT_EQ(fovea_dtype_bytes(none, 32), -1);
  }
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_Q8_0, 33), -1);
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_Q6_K, 512), 420);
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_Q6_K, 128), -1);
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_F32, -1), -1);
  EXPECT_EQ(fovea_dtype_bytes(FOVEA_F32, INT64_MAX), -1) << "more bytes than 64 bits count";
}

TEST(CInterface, PackedViews) {
  const int64_t shape[] = {2, 3, 4}, huge[] = {int64_t{1} << 40, int64_t{1} << 40}, negative[] = {2, -1};
  fovea_tensor t;
  ASSERT_EQ(fovea_tensor_packed(nullptr, FOVEA_F16, 3, shape, &t), FOVEA_OK);
  EXPECT_EQ(t.stride[0], 12);
  EXPECT_EQ(t.stride[1], 4);
  EXPECT_EQ(t.stride[2], 1);
  EXPECT_EQ(t.device_type, FOVEA_CPU);
  EXPECT_EQ(fovea_tensor_packed(nullptr, FOVEA_F16, 3, shape, nullptr), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_tensor_packed(nullptr, FOVEA_F16, 6, shape, &t), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "rank is 6: must be 0 to 5");
  EXPECT_EQ(fovea_tensor_packed(nullptr, 99, 3, shape, &t), FOVEA_INVALID_TYPE);
  EXPECT_EQ(fovea_tensor_packed(nullptr, FOVEA_F16, 2, nullptr, &t), FOVEA_INVALID_VALUE);
  EXPECT_EQ(fovea_tensor_packed(nullptr, FOVEA_F16, 2, negative, &t), FOVEA_INVALID_VALUE);
  EXPECT_STREQ(fovea_last_error(), "shape[1] is -1: must not be negative");
  EXPECT_EQ(fovea_tensor_packed(nullptr, FOVEA_F16, 2, huge, &t), FOVEA_INVALID_VALUE);
}

TEST(CInterface, Version) {
  const std::string version = std::to_string(FOVEA_VERSION_MAJOR) + "." + std::to_string(FOVEA_VERSION_MINOR) + "." +
                              std::to_string(FOVEA_VERSION_PATCH);
  EXPECT_EQ(fovea_version(), version);
}

}  // namespace
