// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/fovea.hpp"
#include "ops/weight_box.h"
#include "oracle/numbers.h"
#include "oracle/quantize64.h"
#include "support/backends.h"
#include "support/check.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::QuantizeParams;
using fovea::Result;

std::vector<int32_t> block_types() {
  std::vector<int32_t> types;
  for (const BlockLayout& layout : kBlockLayouts) types.push_back(layout.dtype);
  return types;
}

// Poisoned memory of a quantised matrix with `pad` blocks after each row.
class BlockBox {
 public:
  BlockBox(int32_t type, int64_t n, int64_t k, int64_t pad = 0, int64_t lead = 0) : type_(type), n_(n), k_(k) {
    stride_ = k + pad * block_of(type);
    const int64_t bytes = n ? fovea_dtype_bytes(type, (n - 1) * stride_ + k) : 0;
    memory_ = Guarded(static_cast<size_t>(bytes + lead));
    data_ = memory_.data() + lead;
  }
  fovea_tensor view() const { return fovea::tensor(data_, type_, {n_, k_}, {stride_, 1}); }
  const std::byte* row(int64_t i) const { return data_ + fovea_dtype_bytes(type_, i * stride_); }
  std::vector<std::byte> bits() const {  // without the padding
    std::vector<std::byte> all;
    for (int64_t i = 0; i < n_; ++i) all.insert(all.end(), row(i), row(i) + fovea_dtype_bytes(type_, k_));
    return all;
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < n_; ++i) {
      const std::vector<double> row_values = fovea::oracle::weights64(type_, row(i), k_);
      all.insert(all.end(), row_values.begin(), row_values.end());
    }
    return all;
  }
  bool outside_untouched() const {
    std::vector<bool> inside(memory_.size());
    for (int64_t i = 0; i < n_; ++i) {
      const auto at = row(i) - memory_.data();
      std::fill_n(inside.begin() + at, fovea_dtype_bytes(type_, k_), true);
    }
    for (size_t i = 0; i < inside.size(); ++i) {
      if (!inside[i] && memory_.data()[i] != std::byte{kPoison}) return false;
    }
    return true;
  }
  Guarded& memory() { return memory_; }

 private:
  int32_t type_;
  int64_t n_, k_, stride_;
  Guarded memory_;
  std::byte* data_ = nullptr;
};

// Laplace's distribution: weights with outliers.
double heavy(Rng& rng) {
  const double magnitude = -std::log(1 - rng.uniform());
  return rng.chance(0.5) ? magnitude : -magnitude;
}

double square_error(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double norm2(const std::vector<double>& a) {
  double sum = 0;
  for (const double v : a) sum += v * v;
  return sum;
}

// Relative RMS errors that must not be exceeded: Fovea's own with a little room, all of them below what llama.cpp's
// quantisers leave on the same distributions (docs/quantize.md). `best`: how far the error may be above the least one
// of oracle/quantize64.
struct Quality {
  int32_t type;
  double normal, heavy;
  double best;
};
constexpr Quality kQuality[] = {
    {FOVEA_Q4_0, 0.0815, 0.1035, 1.002}, {FOVEA_Q4_1, 0.0697, 0.0830, 1.02},   {FOVEA_Q5_0, 0.0405, 0.0520, 1.01},
    {FOVEA_Q5_1, 0.0337, 0.0401, 1.03},  {FOVEA_Q8_0, 0.0049, 0.0064, 1.10},   {FOVEA_Q2_K, 0.262, 0.292, 1.05},
    {FOVEA_Q3_K, 0.1445, 0.1710, 1.02},  {FOVEA_Q4_K, 0.0700, 0.0836, 1.03},   {FOVEA_Q5_K, 0.0345, 0.0412, 1.05},
    {FOVEA_Q6_K, 0.0169, 0.0209, 1.04},  {FOVEA_IQ4_NL, 0.0740, 0.0860, 1.01}, {FOVEA_MXFP4, 0.1125, 0.1245, 1.001},
};

TEST(QuantizeQuality, EveryTypeHasBounds) {
  for (const int32_t type : block_types()) {
    EXPECT_TRUE(std::any_of(std::begin(kQuality), std::end(kQuality), [&](const Quality& q) { return q.type == type; }))
        << fovea_dtype_name(type);
  }
}

TEST(QuantizeQuality, ErrorsOfDistributions) {
  Rng rng = test_rng();
  for (const Quality& q : kQuality) {
    for (const bool tails : {false, true}) {
      TensorBox x(FOVEA_F32, {256, 1024});
      x.fill([&](int64_t) { return 0.02 * (tails ? heavy(rng) : rng.normal()); });
      BlockBox out(q.type, 256, 1024);
      ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out.view()}));
      const std::vector<double> values = x.values();
      const double error = std::sqrt(square_error(values, out.values()) / norm2(values));
      SCOPED_TRACE(::testing::Message() << fovea_dtype_name(q.type) << (tails ? " heavy" : " normal") << " " << error);
      RecordProperty(std::string(fovea_dtype_name(q.type)) + (tails ? "_heavy" : "_normal"), std::to_string(error));
      EXPECT_LE(error, tails ? q.heavy : q.normal);
    }
  }
}

TEST(QuantizeQuality, ErrorsAreNearTheLeastThereIs) {
  Rng rng = test_rng();
  for (const Quality& q : kQuality) {
    const int64_t block = block_of(q.type), blocks = block == 32 ? 40 : 12;
    TensorBox x(FOVEA_F32, {blocks, block});
    x.fill([&](int64_t i) { return i % 2 ? heavy(rng) : rng.normal(); });
    BlockBox out(q.type, blocks, block);
    ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out.view()}));
    const std::vector<double> values = x.values();
    double least = 0;
    for (int64_t i = 0; i < blocks; ++i) least += fovea::oracle::least_error(q.type, values.data() + i * block);
    const double ratio = std::sqrt(square_error(values, out.values()) / least);
    RecordProperty(fovea_dtype_name(q.type), std::to_string(ratio));
    EXPECT_LE(ratio, q.best) << fovea_dtype_name(q.type);
    EXPECT_GT(ratio, 0.98) << fovea_dtype_name(q.type) << ": the oracle misses what is possible";
  }
}

// Every instruction set, any number of threads, any strides, alone or as a part of a larger call: the same bytes.
TEST(Quantize, BitsDependOnWeightsAlone) {
  Rng rng = test_rng();
  const fovea::Context many = cpu_context(7);
  for (const int32_t type : block_types()) {
    for (const int32_t x_type : kFloatDtypes) {
      SCOPED_TRACE(::testing::Message() << fovea_dtype_name(type) << " of " << fovea_dtype_name(x_type) << seed_note());
      const int64_t n = 37, k = block_of(type) * rng.integer(1, 3);
      std::vector<double> values(static_cast<size_t>(n * k));
      for (double& v : values) v = rng.chance(0.2) ? heavy(rng) : 0.1 * rng.normal();
      TensorBox packed(x_type, {n, k});
      packed.assign(values);
      BlockBox want(type, n, k);
      ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = packed, .out = want.view()}));
      for (const Backend& b : backends()) {
        SCOPED_TRACE(b.name);
        Layout layout = random_layout(rng, 2);
        TensorBox x(x_type, {n, k}, layout);
        x.assign(values);
        BlockBox out(type, n, k, rng.integer(0, 2), rng.integer(0, 3));
        ASSERT_TRUE(run(b.context, QuantizeParams{.x = x, .out = out.view()}));
        EXPECT_EQ(out.bits(), want.bits());
        EXPECT_TRUE(out.outside_untouched());
      }
      BlockBox threads(type, n, k);
      ASSERT_TRUE(run(many, QuantizeParams{.x = packed, .out = threads.view()}));
      EXPECT_EQ(threads.bits(), want.bits());
      BlockBox one(type, 1, k);
      ASSERT_TRUE(run(many, QuantizeParams{.x = slice(packed, 0, 17, 18), .out = one.view()}));
      EXPECT_TRUE(std::equal(one.row(0), one.row(0) + fovea_dtype_bytes(type, k), want.row(17)));
    }
  }
}

// What a block can hold comes out of it as it went in: random codes under random scales, of either sign and size.
TEST(Quantize, RepresentableWeightsStayWhatTheyAre) {
  Rng rng = test_rng();
  for (const int32_t type : block_types()) {
    if (block_of(type) != 32) continue;
    SCOPED_TRACE(::testing::Message() << fovea_dtype_name(type) << ' ' << seed_note());
    const int64_t n = 2000, k = 32;
    const WeightBox from(rng, type, n, k);
    TensorBox x(FOVEA_F32, {n, k});
    x.assign(from.values());
    BlockBox out(type, n, k);
    ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out.view()}));
    const std::vector<double> want = from.values(), got = out.values();
    int64_t exact_rows = 0;
    for (auto row = want.begin(); row != want.end(); row += k) {
      // A scale far from its offset: sums that f32 rounds, so that x is not what the block holds.
      if (!std::all_of(row, row + k, [](double v) { return static_cast<float>(v) == v; })) continue;
      ++exact_rows;
      const auto at = row - want.begin();
      ASSERT_TRUE(std::equal(row, row + k, got.begin() + at)) << "row " << at / k;
    }
    EXPECT_GT(exact_rows, n * 9 / 10);
  }
}

TEST(Quantize, BlocksOfOneValue) {
  for (const int32_t type : block_types()) {
    const int64_t k = block_of(type);
    for (const double value : {0.0, -0.0, 1.0, -0.75, 0.1, 0x1p-24, 1e-30, -1e-45, 3e4}) {
      SCOPED_TRACE(::testing::Message() << fovea_dtype_name(type) << ' ' << value);
      TensorBox x(FOVEA_F32, {3, k});
      x.fill([&](int64_t i) { return i / k == 1 ? value : 0; });
      BlockBox out(type, 3, k);
      uint32_t status = 0;
      ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out.view()}, {.status = &status}));
      EXPECT_EQ(status, 0u);
      const std::vector<double> got = out.values();
      for (int64_t i = 0; i < 3 * k; ++i) {
        const double want = i / k == 1 ? value : 0;
        const double relative = type == FOVEA_MXFP4 ? 0.2 : 0.002;
        ASSERT_NEAR(got[static_cast<size_t>(i)], want, relative * std::fabs(want) + 0x1p-24);
      }
    }
  }
}

// Scales are f16: what is too large for them is cut off, what is too small becomes 0.
TEST(Quantize, LimitsOfTheScale) {
  Rng rng = test_rng();
  for (const int32_t type : block_types()) {
    const int64_t k = block_of(type);
    for (const double size : {1e-44, 1e-12, 1e-8, 1e-6, 1e5, 1e7, 1e12, 3e38}) {
      SCOPED_TRACE(::testing::Message() << fovea_dtype_name(type) << ' ' << size);
      TensorBox x(FOVEA_F32, {8, k});
      x.fill([&](int64_t) { return std::clamp(rng.normal(), -3.0, 3.0) / 3 * size; });
      BlockBox out(type, 8, k);
      ASSERT_TRUE(run(backends()[0].context, QuantizeParams{.x = x, .out = out.view()}));
      const std::vector<double> want = x.values(), got = out.values();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_TRUE(std::isfinite(static_cast<float>(got[i])));
        ASSERT_LE(std::fabs(got[i]), 2 * size + 1e-6) << i;
      }
      // No worse than nothing.
      EXPECT_LE(square_error(want, got), norm2(want) * 1.0001);
    }
  }
}

// A weight that is no number: its block decodes to NaN (mxfp4, which has none, to infinity), all others are as without
// it, and the call says so.
TEST(Quantize, NotFinite) {
  Rng rng = test_rng();
  for (const Backend& b : backends()) {
    SCOPED_TRACE(b.name);
    for (const int32_t type : block_types()) {
      for (const int32_t x_type : kFloatDtypes) {
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
          SCOPED_TRACE(::testing::Message() << fovea_dtype_name(type) << ' ' << bad);
          const int64_t block = block_of(type), k = 3 * block, at = rng.integer(0, block - 1);
          TensorBox x(x_type, {4, k});
          x.fill([&](int64_t) { return rng.normal(); });
          BlockBox want(type, 4, k), out(type, 4, k), checked(type, 4, k);
          ASSERT_TRUE(run(b.context, QuantizeParams{.x = x, .out = want.view()}));
          x.set(2 * k + block + at, bad);
          uint32_t status = 0;
          ASSERT_TRUE(run(b.context, QuantizeParams{.x = x, .out = out.view()}, {.status = &status}));
          EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
          const std::vector<double> got = out.values(), sound = want.values();
          for (int64_t i = 0; i < 4 * k; ++i) {
            const double g = got[static_cast<size_t>(i)];
            if (i / block == (2 * k + block) / block) {
              ASSERT_TRUE(type == FOVEA_MXFP4 ? std::isinf(static_cast<float>(g)) : std::isnan(g)) << i;
            } else {
              ASSERT_EQ(g, sound[static_cast<size_t>(i)]) << i;
            }
          }
          const Result result =
              run(b.context, QuantizeParams{.x = x, .out = checked.view()}, {.flags = FOVEA_EXEC_CHECK});
          EXPECT_EQ(result.code, FOVEA_INVALID_VALUE);
          const std::string value = std::isnan(bad) ? "nan" : bad > 0 ? "inf" : "-inf";
          EXPECT_EQ(result.message, "x[2, " + std::to_string(block + at) + "] is " + value + ": must be finite");
          EXPECT_TRUE(checked.memory().all(kPoison));
        }
      }
    }
  }
}

TEST(Quantize, APlanServesFewerRows) {
  Rng rng = test_rng();
  const fovea::Context& context = backends()[0].context;
  TensorBox x(FOVEA_F32, {9, 64});
  x.fill([&](int64_t) { return rng.normal(); });
  BlockBox whole(FOVEA_Q8_0, 9, 64), part(FOVEA_Q8_0, 4, 64);
  const auto plan = context.plan(QuantizeParams{.x = x, .out = whole.view()});
  plan.run({.x = x, .out = whole.view()}, {});
  plan.run({.x = slice(x, 0, 0, 4), .out = part.view()}, {});
  EXPECT_TRUE(std::equal(part.row(0), part.row(4), whole.row(0)));
  TensorBox more(FOVEA_F32, {10, 64}), narrow(FOVEA_F32, {9, 32});
  BlockBox more_out(FOVEA_Q8_0, 10, 64), narrow_out(FOVEA_Q8_0, 9, 32), other(FOVEA_Q4_1, 9, 64);
  const auto message = [&](const fovea_tensor& from, const fovea_tensor& to) {
    return plan.try_run({.x = from, .out = to}, {}).message;
  };
  EXPECT_EQ(message(more, more_out.view()), "x.shape[0] is 10: the plan was made for at most 9");
  EXPECT_EQ(message(narrow, narrow_out.view()), "x.shape[1] is 32: the plan was made for 64");
  EXPECT_EQ(message(x, other.view()), "quantize: an option, type or shape is not the one the plan was made for");
}

TEST(Quantize, EmptySizes) {
  const fovea::Context& context = backends()[0].context;
  for (const int32_t type : block_types()) {
    TensorBox none(FOVEA_F32, {0, block_of(type)}), narrow(FOVEA_F32, {4, 0});
    BlockBox none_out(type, 0, block_of(type)), narrow_out(type, 4, 0);
    EXPECT_TRUE(run(context, QuantizeParams{.x = none, .out = none_out.view()}));
    EXPECT_TRUE(run(context, QuantizeParams{.x = narrow, .out = narrow_out.view()}));
  }
}

TEST(Quantize, ErrorsNameTheArgument) {
  TensorBox x(FOVEA_F32, {2, 64});
  BlockBox out(FOVEA_Q8_0, 2, 64);
  const auto message = [&](auto&& change) {
    QuantizeParams p{.x = x, .out = out.view()};
    change(p);
    const Result result = run(backends()[0].context, p);
    EXPECT_FALSE(result);
    EXPECT_TRUE(out.memory().all(kPoison));
    return result.message;
  };
  EXPECT_EQ(message([](auto& p) { p.x.dtype = FOVEA_E4M3; }), "x is e4m3: must be one of f32, f16, bf16");
  EXPECT_EQ(message([](auto& p) { p.out.dtype = FOVEA_F16; }).substr(0, 27), "out is f16: must be one of ");
  EXPECT_EQ(message([](auto& p) { p.out.shape[1] = 32; }), "out.shape is [2, 32]: must be [2, 64] (x)");
  EXPECT_EQ(message([](auto& p) { p.x.shape[1] = p.out.shape[1] = 40; }),
            "out.shape[1] is 40: must be a multiple of the block of 32");
  EXPECT_EQ(message([](auto& p) { p.out.stride[0] = 0; }), "out.stride[0] is 0: an output must not repeat elements");
  EXPECT_EQ(message([](auto& p) { p.out.stride[0] = 65; }),
            "out.stride[0] is 65: must be a multiple of the block of 32");
  EXPECT_EQ(message([](auto& p) { p.x.stride[1] = 2; }), "x.stride[1] is 2: must be 1");
  EXPECT_EQ(message([](auto& p) { p.x.data = nullptr; }), "x.data is null: a call needs its memory");
}

}  // namespace
