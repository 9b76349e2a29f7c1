// SPDX-License-Identifier: Apache-2.0
// mma.sync of each family against products in double: small integers exactly, other numbers within what the accumulator
// drops.
#include <cstdio>
#include <limits>
#include <ostream>

#include "cuda/instructions.h"
#include "cuda/product.h"

namespace fovea::cuda {
namespace {

struct MmaCase {
  const char* file;
  const char* entry;
  int oldest;
  int m, n, k;
  Type a, b;
  int per_block = 1;   // products of a warp
  bool row_b = false;  // B row major
};

void PrintTo(const MmaCase& test, std::ostream* out) {
  *out << test.file << ".cuh";
}

const MmaCase kCases[] = {
    {"mma_sm70", "mma_m8n8k4_f16", 70, 8, 8, 4, Type::f16, Type::f16, 4},
    {"mma_sm70", "mma_m8n8k4_f16_row", 70, 8, 8, 4, Type::f16, Type::f16, 4, true},
    {"mma_sm75", "mma_m16n8k8_f16", 75, 16, 8, 8, Type::f16, Type::f16},
    {"mma_sm80", "mma_m16n8k8_bf16", 80, 16, 8, 8, Type::bf16, Type::bf16},
    {"mma_sm80", "mma_m16n8k16_f16", 80, 16, 8, 16, Type::f16, Type::f16},
    {"mma_sm80", "mma_m16n8k16_bf16", 80, 16, 8, 16, Type::bf16, Type::bf16},
    {"mma_sm80", "mma_m16n8k32_s8_s8", 80, 16, 8, 32, Type::s8, Type::s8},
    {"mma_sm80", "mma_m16n8k32_u8_s8", 80, 16, 8, 32, Type::u8, Type::s8},
    {"mma_sm80", "mma_m16n8k32_s8_u8", 80, 16, 8, 32, Type::s8, Type::u8},
    {"mma_sm80", "mma_m16n8k32_u8_u8", 80, 16, 8, 32, Type::u8, Type::u8},
    {"mma_sm89", "mma_m16n8k32_e4m3", 89, 16, 8, 32, Type::e4m3, Type::e4m3},
    {"mma_sm89", "mma_m16n8k32_e5m2", 89, 16, 8, 32, Type::e5m2, Type::e5m2},
};

class InstructionMma : public OnCard, public testing::WithParamInterface<MmaCase> {};

TEST_P(InstructionMma, EqualsTheProduct) {
  const MmaCase& test = GetParam();
  SKIP_BELOW(test.oldest);
  const KernelUse use = load(test.file, test.entry);
  constexpr int kBlocks = 64;
  const int rounds = kBlocks * test.per_block, size = test.m * test.n;
  const int family = context_->caps.compute_capability / 10;
  const int bits = sum_bits(test.a, family == 8 || family >= 12);
  std::mt19937 random(1);
  double worst = 0;  // of the bound
  for (const Fill kind : {Fill::exact, Fill::random}) {
    std::vector<Matrix> a, b;
    std::vector<u8_t> a_bytes, b_bytes;
    std::vector<u32_t> c(static_cast<size_t>(rounds * size));
    std::vector<double> c_values(c.size());
    for (int round = 0; round < rounds; ++round) {
      a.emplace_back(test.a, test.m, test.k);
      b.emplace_back(test.b, test.n, test.k);
      fill(a.back(), kind, random);
      fill(b.back(), kind, random);
      a_bytes.insert(a_bytes.end(), a.back().data.begin(), a.back().data.end());
      Matrix stored = b.back();
      for (int n = 0; n < test.n && test.row_b; ++n) {
        for (int k = 0; k < test.k; ++k)
          std::memcpy(&stored.data[static_cast<size_t>(k * test.n + n) * 2], b.back().at(n, k), 2);
      }
      b_bytes.insert(b_bytes.end(), stored.data.begin(), stored.data.end());
    }
    for (size_t i = 0; i < c.size(); ++i) {
      if (is_integer(test.a)) {
        // Near both ends: the sum wraps around.
        c[i] = i % 3 == 0 ? random() : i % 3 == 1 ? 0x7FFFFFFFu : 0x80000000u;
      } else {
        const float x =
            static_cast<float>(static_cast<int>(random() % 201) - 100) / (kind == Fill::exact ? 1.0f : 7.0f);
        c[i] = bits_of_float(x);
        c_values[i] = x;
      }
    }
    const auto a_on = upload(a_bytes), b_on = upload(b_bytes), c_on = upload(c),
               d_on = upload(std::vector<u32_t>(c.size(), 0xFFFFFFFFu));
    const cuda_test::ProductArgs args{
        .a = a_on->as<u8_t>(), .b = b_on->as<u8_t>(), .c = c_on->as<u32_t>(), .d = d_on->as<u32_t>()};
    run(use, {.grid = {kBlocks}, .block = {32}}, args);
    const std::vector<u32_t> d = download<u32_t>(*d_on, c.size());
    for (int i = 0; i < rounds * size; ++i) {
      const int round = i / size, m = i % size / test.n, n = i % test.n;
      const Matrix &am = a[static_cast<size_t>(round)], &bm = b[static_cast<size_t>(round)];
      const Sum sum = product_at(am, bm, m, n);
      const auto at = static_cast<size_t>(i);
      const std::string place = std::string("product ") + std::to_string(round) + " row " + std::to_string(m) +
                                " column " + std::to_string(n);
      if (is_integer(test.a)) {
        ASSERT_EQ(d[at], c[at] + static_cast<u32_t>(static_cast<int>(sum.value))) << place;
      } else if (kind == Fill::exact) {
        ASSERT_EQ(float_of_bits(d[at]), sum.value + c_values[at]) << place;
      } else {
        const double error = std::fabs(float_of_bits(d[at]) - (sum.value + c_values[at]));
        const double bound = sum_bound(sum, c_values[at], test.k, bits);
        ASSERT_LE(error, bound) << place;
        worst = std::fmax(worst, error / bound);
      }
    }
  }
  if (!is_integer(test.a)) std::printf("%s: largest error %.3f of the bound of %d bits\n", test.entry, worst, bits);
}

INSTANTIATE_TEST_SUITE_P(All, InstructionMma, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.entry); });

}  // namespace
}  // namespace fovea::cuda
