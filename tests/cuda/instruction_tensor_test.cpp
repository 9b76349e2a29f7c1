// SPDX-License-Identifier: Apache-2.0
// Tensor copies of the TMA unit, byte by byte: loads and stores apart, each where CUDA allows them, and in processes of
// their own where it does not.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <ostream>
#include <random>
#include <utility>

#include "backend/cuda/tensor_map.h"
#include "cuda/instructions.h"

namespace fovea::cuda {
namespace {

using Place = std::vector<i32_t>;

// A tensor, a box, and where boxes are copied: the first coordinates are multiples of 16 bytes. `at` has no negative
// coordinate, as stores demand; `before` are places for loads alone.
struct TensorCase {
  const char* name;
  TensorMapSpec spec;
  std::vector<Place> at, before;
};

std::vector<TensorCase> tensor_cases() {
  std::vector<TensorCase> cases;
  // Rows of 37 elements end within a piece of 16 bytes, rows of 48 at the end of one.
  const char* const names[] = {"Bytes1", "Bytes2", "Bytes4", "Bytes8"};
  for (int i = 0; i < 4; ++i) {
    const int element = 1 << i, piece = 16 / element;
    cases.push_back(
        {names[i],
         {.element_bytes = element, .rank = 2, .sizes = {37, 11}, .strides = {0, 48 * element}, .box = {32, 5}},
         {{0, 0}, {16, 8}, {32, 9}, {piece, 2}, {2 * piece, 10}},
         {{-16, -2}, {16, -4}, {-piece, 7}, {2 * piece, -1}}});
  }
  cases.push_back({"WholePieces",
                   {.element_bytes = 2, .rank = 2, .sizes = {48, 11}, .strides = {0, 96}, .box = {32, 5}},
                   {{0, 0}, {16, 6}, {24, 8}, {40, 10}},
                   {{-8, -1}, {-24, 9}}});
  for (const auto& [name, swizzle] :
       {std::pair{"Span32", Swizzle::span32}, {"Span64", Swizzle::span64}, {"Span128", Swizzle::span128}}) {
    const i32_t inner = span_bytes(swizzle) / 2;
    cases.push_back({name,
                     {.rank = 2, .sizes = {70, 33}, .strides = {0, 144}, .box = {inner, 21}, .swizzle = swizzle},
                     {{0, 0}, {8, 20}, {64, 5}, {56, 30}},
                     {{-8, -2}, {8, -20}, {-8, 20}}});
  }
  cases.push_back({"Rank3",
                   {.rank = 3, .sizes = {21, 7, 5}, .strides = {0, 64, 512}, .box = {16, 3, 2}},
                   {{0, 0, 0}, {16, 5, 4}, {8, 2, 3}},
                   {{-8, -1, -1}, {8, 0, -1}}});
  cases.push_back({"Rank4",
                   {.rank = 4, .sizes = {20, 3, 4, 5}, .strides = {0, 48, 160, 720}, .box = {16, 2, 3, 2}},
                   {{0, 0, 0, 0}, {16, 2, 3, 4}, {8, 0, 2, 1}},
                   {{-8, -1, 0, 1}, {8, 0, 2, -1}}});
  cases.push_back({"Rank5",
                   {.rank = 5, .sizes = {17, 3, 2, 3, 4}, .strides = {0, 48, 144, 304, 912}, .box = {16, 2, 2, 2, 3}},
                   {{0, 0, 0, 0, 0}, {8, 2, 1, 2, 2}, {16, 1, 0, 1, 1}},
                   {{-8, -1, -1, 0, 1}, {16, 1, 0, 1, -1}}});
  // Page by page, as a paged cache is read: dims (d, heads, tokens of the page, pages).
  cases.push_back({"Pages",
                   {.rank = 4,
                    .sizes = {64, 2, 16, 3},
                    .strides = {0, 128, 256, 4096},
                    .box = {64, 1, 16, 1},
                    .swizzle = Swizzle::span128},
                   {{0, 1, 0, 2}, {0, 0, 4, 1}},
                   {{0, 1, -3, 2}, {0, 1, 0, -1}}});
  return cases;
}

void PrintTo(const TensorCase& test, std::ostream* out) {
  *out << "rank " << test.spec.rank << ", " << test.spec.element_bytes << " bytes, span "
       << span_bytes(test.spec.swizzle);
}

int64_t row_pieces(const TensorMapSpec& spec) {  // bytes of a row, its last piece of 16 whole
  return (spec.sizes[0] * spec.element_bytes + 15) / 16 * 16;
}

int64_t tensor_bytes(const TensorMapSpec& spec) {
  int64_t bytes = row_pieces(spec);
  for (int i = 1; i < spec.rank; ++i) bytes += (spec.sizes[i] - 1) * spec.strides[i];
  return bytes;
}

int64_t box_bytes(const TensorMapSpec& spec) {
  int64_t bytes = spec.element_bytes;
  for (int i = 0; i < spec.rank; ++i) bytes *= spec.box[i];
  return bytes;
}

enum class Lies { inside, beside, outside };  // beside: past the end of a row, in its last piece of 16 bytes

// Walks the box byte by byte: calls visit(offset in shared memory, where it lies, offset in the tensor).
template <class Visit>
void walk_box(const TensorMapSpec& spec, const Place& at, Visit visit) {
  for (int64_t byte = 0; byte < box_bytes(spec); ++byte) {
    int64_t rest = byte / spec.element_bytes, offset = byte % spec.element_bytes;
    Lies lies = Lies::inside;
    for (int i = 0; i < spec.rank; ++i) {
      const int64_t index = at[static_cast<size_t>(i)] + rest % spec.box[i];
      rest /= spec.box[i];
      offset += index * (i == 0 ? spec.element_bytes : spec.strides[i]);
      if (index >= 0 && index < spec.sizes[i]) continue;
      const bool beside = i == 0 && index >= 0 && index * spec.element_bytes < row_pieces(spec);
      lies = beside ? Lies::beside : Lies::outside;
      if (!beside) break;
    }
    visit(static_cast<size_t>(swizzled(spec.swizzle, static_cast<u32_t>(byte))), lies, static_cast<size_t>(offset));
  }
}

class TensorCopies : public OnCard {
 protected:
  // Odd: neither a zero nor what memory holds before a copy.
  std::vector<u8_t> random_bytes(int64_t count) {
    std::vector<u8_t> bytes(static_cast<size_t>(count));
    for (u8_t& byte : bytes) byte = static_cast<u8_t>(random_() | 1);
    return bytes;
  }

  // Copies one box; `tensor` and `box` are what both hold before and after.
  void copy(const char* entry, TensorMapSpec spec, const Place& at, std::vector<u8_t>& tensor, std::vector<u8_t>& box) {
    const KernelUse use = load("bulk", entry, {{"rank", spec.rank}});
    const auto tensor_on = upload(tensor), box_on = upload(box);
    cuda_test::TensorCopyArgs args;
    spec.base = tensor_on->as<u8_t>();
    require(encode_tensor_map(driver(), spec, args.map));
    std::copy(at.begin(), at.end(), args.at);
    args.box = box_on->as<u8_t>();
    args.box_bytes = static_cast<i32_t>(box.size());
    run(use, {.block = {32}, .smem_bytes = static_cast<unsigned>(box.size()) + 1024}, args,
        "at " + testing::PrintToString(at));
    tensor = download<u8_t>(*tensor_on, tensor.size());
    box = download<u8_t>(*box_on, box.size());
  }

  // Empty, or the first byte that is not what it should be.
  static std::string difference(const std::vector<u8_t>& got, const std::vector<u8_t>& want) {
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] == want[i]) continue;
      return "byte " + std::to_string(i) + " of " + std::to_string(got.size()) + " is " + std::to_string(got[i]) +
             ", not " + std::to_string(want[i]);
    }
    return "";
  }

  // All of the box: what lies outside the tensor is zero.
  std::string load_box(const TensorMapSpec& spec, const Place& at) {
    const std::vector<u8_t> from = random_bytes(tensor_bytes(spec));
    std::vector<u8_t> tensor = from, box(static_cast<size_t>(box_bytes(spec)), 0x54), want(box.size());
    copy("tensor_load", spec, at, tensor, box);
    walk_box(spec, at, [&](size_t in_box, Lies lies, size_t in_tensor) {
      want[in_box] = lies == Lies::inside ? from[in_tensor] : 0;
    });
    const std::string loaded = difference(box, want);
    return loaded.empty() ? difference(tensor, from) : "loaded: " + loaded;
  }

  // All that lies inside, and nothing else but the rest of a row's last piece: the box's bytes, zeros, or as it was.
  std::string store_box(const TensorMapSpec& spec, const Place& at) {
    const std::vector<u8_t> from = random_bytes(box_bytes(spec));
    std::vector<u8_t> box = from, tensor(static_cast<size_t>(tensor_bytes(spec)), 0xEE), want = tensor;
    copy("tensor_store", spec, at, tensor, box);
    walk_box(spec, at, [&](size_t in_box, Lies lies, size_t in_tensor) {
      if (lies == Lies::inside) want[in_tensor] = from[in_box];
      if (lies != Lies::beside) return;
      const u8_t got = tensor[in_tensor];
      ++(got == from[in_box] ? beside_box_ : got == 0 ? beside_zero_ : beside_kept_);
      if (got == from[in_box] || got == 0) want[in_tensor] = got;
    });
    const std::string stored = difference(tensor, want);
    return stored.empty() ? difference(box, from) : "stored: " + stored;
  }

  std::mt19937 random_{3};
  int beside_box_ = 0, beside_zero_ = 0, beside_kept_ = 0;
};

class InstructionTensorCopy : public TensorCopies, public testing::WithParamInterface<TensorCase> {};

TEST_P(InstructionTensorCopy, LoadsFillWithZerosPastTheEnd) {
  SKIP_BELOW(90);
  for (const Place& at : GetParam().at) EXPECT_EQ(load_box(GetParam().spec, at), "") << testing::PrintToString(at);
}

TEST_P(InstructionTensorCopy, LoadsFillWithZerosBeforeTheStart) {
  SKIP_BELOW(90);
  for (const Place& at : GetParam().before) EXPECT_EQ(load_box(GetParam().spec, at), "") << testing::PrintToString(at);
}

TEST_P(InstructionTensorCopy, StoresWriteNoPieceOutside) {
  SKIP_BELOW(90);
  for (const Place& at : GetParam().at) EXPECT_EQ(store_box(GetParam().spec, at), "") << testing::PrintToString(at);
  if (beside_box_ + beside_zero_ + beside_kept_ == 0) return;
  std::cout << "past the ends of rows, in their last 16 bytes: " << beside_box_ << " bytes of the box, " << beside_zero_
            << " zeros, " << beside_kept_ << " as before" << std::endl;
}

// Not one byte inside, by the innermost dimension or by the outermost.
TEST_P(InstructionTensorCopy, BoxesWhollyPastTheEnd) {
  SKIP_BELOW(90);
  const TensorMapSpec& spec = GetParam().spec;
  const int last = spec.rank - 1;
  for (const int i : {0, last}) {
    Place at(static_cast<size_t>(spec.rank));
    at[static_cast<size_t>(i)] =
        i == 0 ? static_cast<i32_t>(row_pieces(spec) / spec.element_bytes) : static_cast<i32_t>(spec.sizes[last]) + 2;
    EXPECT_EQ(load_box(spec, at), "") << testing::PrintToString(at);
    EXPECT_EQ(store_box(spec, at), "") << testing::PrintToString(at);
  }
}

INSTANTIATE_TEST_SUITE_P(All, InstructionTensorCopy, testing::ValuesIn(tensor_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

// Places that CUDA does not allow. No kernel may rely on either outcome: the context ends with an illegal instruction,
// or the copy is right. What may never be is a copy that is wrong and silent.
struct ForbiddenPlace {
  const char* name;
  bool store;
  Place at;
};

void PrintTo(const ForbiddenPlace& place, std::ostream* out) {
  *out << (place.store ? "store at " : "load at ") << testing::PrintToString(place.at);
}

class InstructionTensorDeathTest : public TensorCopies, public testing::WithParamInterface<ForbiddenPlace> {};

TEST_P(InstructionTensorDeathTest, EndsTheContextOrIsRight) {
  SKIP_BELOW(90);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child starts anew and loses a context of its own
  const TensorMapSpec spec{.rank = 2, .sizes = {40, 11}, .strides = {0, 96}, .box = {16, 5}};
  constexpr int kRight = 0, kIllegal = 3, kWrong = 4;
  const auto child = [&] {
    std::string error;
    try {
      error = GetParam().store ? store_box(spec, GetParam().at) : load_box(spec, GetParam().at);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    std::fprintf(stderr, "%s\n", error.c_str());
    _exit(error.empty() ? kRight : error.find("ILLEGAL_INSTRUCTION") != std::string::npos ? kIllegal : kWrong);
  };
  int code = -1;
  const auto allowed = [&](int status) {
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return code == kRight || code == kIllegal;
  };
  EXPECT_EXIT(child(), allowed, "");
  std::cout << testing::PrintToString(GetParam())
            << (code == kRight     ? ": right"
                : code == kIllegal ? ": illegal instruction"
                                   : ": wrong")
            << std::endl;
}

INSTANTIATE_TEST_SUITE_P(All, InstructionTensorDeathTest,
                         testing::Values(ForbiddenPlace{"LoadWithinAPiece", false, {4, 2}},
                                         ForbiddenPlace{"StoreWithinAPiece", true, {4, 2}},
                                         ForbiddenPlace{"StoreBeforeTheRow", true, {-8, 2}},
                                         ForbiddenPlace{"StoreBeforeTheFirstRow", true, {8, -2}},
                                         ForbiddenPlace{"StoreWhollyBefore", true, {8, -5}}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(TensorMapSpec, WhatTheUnitCannotDescribeIsNamed) {
  alignas(16) static char memory[64];
  const TensorMapSpec good{
      .base = memory, .rank = 2, .sizes = {64, 8}, .strides = {0, 128}, .box = {64, 8}, .swizzle = Swizzle::span128};
  EXPECT_TRUE(check_tensor_map(good).ok());
  const auto refused = [&](const char* argument, const auto& change) {
    TensorMapSpec spec = good;
    change(spec);
    const Status status = check_tensor_map(spec);
    EXPECT_EQ(status.code(), FOVEA_INVALID_VALUE) << argument;
    EXPECT_TRUE(status.message().starts_with(argument)) << status.message();
  };
  refused("rank is 1", [](TensorMapSpec& s) { s.rank = 1; });
  refused("rank is 6", [](TensorMapSpec& s) { s.rank = 6; });
  refused("element_bytes is 3", [](TensorMapSpec& s) { s.element_bytes = 3; });
  refused("base is ", [](TensorMapSpec& s) { s.base = memory + 8; });
  refused("base is 0", [](TensorMapSpec& s) { s.base = nullptr; });
  refused("sizes[1] is 0", [](TensorMapSpec& s) { s.sizes[1] = 0; });
  refused("sizes[0] is 4294967296", [](TensorMapSpec& s) { s.sizes[0] = int64_t{1} << 32; });
  refused("strides[1] is 136", [](TensorMapSpec& s) { s.strides[1] = 136; });
  refused("strides[1] is -128", [](TensorMapSpec& s) { s.strides[1] = -128; });
  refused("strides[1] is 1099511627776", [](TensorMapSpec& s) { s.strides[1] = int64_t{1} << 40; });
  refused("box[1] is 257", [](TensorMapSpec& s) { s.box[1] = 257; });
  refused("box[0] is 0", [](TensorMapSpec& s) { s.box[0] = 0; });
  refused("box[0] is 60: must be a multiple of 16 bytes", [](TensorMapSpec& s) { s.box[0] = 60; });
  refused("box[0] is 72: must be at most the swizzle's 128 bytes", [](TensorMapSpec& s) { s.box[0] = 72; });
}

}  // namespace
}  // namespace fovea::cuda
