// SPDX-License-Identifier: Apache-2.0
// wgmma from shared memory and registers, every layout of a descriptor, against products in double. The operands are
// laid out here byte by byte, as the comment of wgmma_descriptor says.
#include <cstdio>
#include <limits>

#include "cuda/instructions.h"
#include "cuda/product.h"

namespace fovea::cuda {
namespace {

// An operand as it lies in shared memory.
struct Image {
  std::vector<u8_t> bytes;
  u32_t leading = 0, stride = 0;
  u32_t step = 0;  // from the address of one product to that of the next
};

// Not shared/tensor_map.h's formula: piece by piece, as the comments and pictures say.
u32_t piece_swizzled(int span, u32_t offset) {
  if (span == 0) return offset;
  const u32_t row128 = offset / 128, in_row = offset % 128, piece = in_row / 16, pieces = static_cast<u32_t>(span) / 16;
  const u32_t moved = (piece / pieces) * pieces + ((piece % pieces) ^ (row128 % pieces));
  return row128 * 128 + moved * 16 + offset % 16;
}

void put(Image& image, u32_t offset, const u8_t* from, int bytes) {
  if (image.bytes.size() < offset + 16) image.bytes.resize(offset + 16);
  std::memcpy(&image.bytes[offset], from, static_cast<size_t>(bytes));
}

// k innermost.
Image k_major(const Matrix& m, int span) {
  Image image;
  const int size = bytes_of(m.type), k_bytes = m.columns * size;
  for (int row = 0; row < m.rows; ++row) {
    for (int k = 0; k < m.columns; ++k) {
      const int byte = k * size;
      const int offset =
          span != 0 ? row * span + byte : row / 8 * (k_bytes * 8) + byte / 16 * 128 + row % 8 * 16 + byte % 16;
      put(image, piece_swizzled(span, static_cast<u32_t>(offset)), m.at(row, k), size);
    }
  }
  image.leading = span != 0 ? 0 : 128;
  image.stride = static_cast<u32_t>(span != 0 ? 8 * span : 8 * k_bytes);
  image.step = span != 0 ? 32 : 256;
  return image;
}

// Rows innermost, 16-bit types.
Image mn_major(const Matrix& m, int span) {
  Image image;
  for (int row = 0; row < m.rows; ++row) {
    for (int k = 0; k < m.columns; ++k) {
      const int in_chunk = span / 2;  // rows
      const int offset = span != 0 ? row / in_chunk * (m.columns * span) + k * span + row % in_chunk * 2
                                   : row / 8 * (m.columns * 16) + k * 16 + row % 8 * 2;
      put(image, piece_swizzled(span, static_cast<u32_t>(offset)), m.at(row, k), 2);
    }
  }
  image.leading = static_cast<u32_t>(span != 0 ? m.columns * span : 128);
  image.stride = static_cast<u32_t>(span != 0 ? 8 * span : m.columns * 16);
  image.step = static_cast<u32_t>(span != 0 ? 16 * span : 256);
  return image;
}

class InstructionWgmmaRuns : public OnCard {
 protected:
  // Runs one product of k elements and compares; answers the largest part of the bound that an error had.
  double compare(const WgmmaForm& form, Swizzle swizzle, int k, Fill kind, bool accumulate) {
    const KernelUse use = load("wgmma", "wgmma", form.constants());
    const Type type = form.type == 0 ? Type::f16 : form.type == 1 ? Type::bf16 : Type::e4m3;
    Matrix a(type, 64, k), b(type, form.n, k);
    fill(a, kind, random_);
    fill(b, kind, random_);
    const int span = span_bytes(swizzle);
    Image image_a = form.ta ? mn_major(a, span) : k_major(a, span);
    Image image_b = form.tb ? mn_major(b, span) : k_major(b, span);
    image_a.bytes.resize((image_a.bytes.size() + 1023) / 1024 * 1024);
    image_b.bytes.resize((image_b.bytes.size() + 1023) / 1024 * 1024);
    std::vector<float> c(static_cast<size_t>(64 * form.n));
    for (float& x : c) {
      x = accumulate ? static_cast<float>(static_cast<int>(random_() % 201) - 100)
                     : std::numeric_limits<float>::quiet_NaN();
    }
    const auto a_on = upload(image_a.bytes), b_on = upload(image_b.bytes), rows_on = upload(a.data), c_on = upload(c),
               d_on = upload(std::vector<float>(c.size(), std::numeric_limits<float>::quiet_NaN()));
    cuda_test::WgmmaArgs args{.image_a = a_on->as<u8_t>(),
                              .image_b = b_on->as<u8_t>(),
                              .rows_a = rows_on->as<u8_t>(),
                              .c = c_on->as<float>(),
                              .d = d_on->as<float>()};
    args.bytes_a = static_cast<i32_t>(image_a.bytes.size());
    args.bytes_b = static_cast<i32_t>(image_b.bytes.size());
    args.leading_a = image_a.leading;
    args.stride_a = image_a.stride;
    args.step_a = image_a.step;
    args.leading_b = image_b.leading;
    args.stride_b = image_b.stride;
    args.step_b = image_b.step;
    args.swizzle = swizzle;
    args.steps = k * bytes_of(type) / 32;
    args.accumulate = accumulate;
    run(use, {.block = {128}, .smem_bytes = static_cast<unsigned>(args.bytes_a + args.bytes_b + 1024)}, args,
        "span " + std::to_string(span));
    const std::vector<float> d = download<float>(*d_on, c.size());
    double worst = 0;
    int wrong = 0;
    for (int i = 0; i < 64 * form.n; ++i) {
      const Sum sum = product_at(a, b, i / form.n, i % form.n);
      const double start = accumulate ? c[static_cast<size_t>(i)] : 0, want = sum.value + start;
      const double error = std::fabs(d[static_cast<size_t>(i)] - want);
      const double bound = kind == Fill::exact ? 0 : sum_bound(sum, start, k, sum_bits(type, true));
      if (!(error <= bound) && wrong++ == 0) {
        ADD_FAILURE() << fovea::name(use.request) << " span " << span << ": row " << i / form.n << " column "
                      << i % form.n << " is " << d[static_cast<size_t>(i)] << ", not " << want;
      }
      if (bound != 0) worst = std::fmax(worst, error / bound);
    }
    if (wrong > 1) ADD_FAILURE() << wrong << " of " << 64 * form.n << " are wrong";
    return worst;
  }
  bool on_hopper() const { return context_->caps.compute_capability == 90; }
  std::mt19937 random_{2};
};

constexpr Swizzle kSwizzles[] = {Swizzle::none, Swizzle::span32, Swizzle::span64, Swizzle::span128};

TEST_F(InstructionWgmmaRuns, EveryFormEqualsTheProduct) {
  if (!on_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
  double worst[3] = {};
  int failures = 0;
  for (const WgmmaForm& form : wgmma_forms()) {
    for (const Swizzle swizzle : kSwizzles) {
      // Where an operand in shared memory has k innermost, a row is one span.
      const int span = span_bytes(swizzle), size = form.type == 2 ? 1 : 2;
      const bool k_inner = (!form.registers && !form.ta) || !form.tb;
      const int k = (k_inner && span != 0 ? span : 64) / size;
      compare(form, swizzle, k, Fill::exact, false);
      compare(form, swizzle, k, Fill::exact, true);
      worst[form.type] = std::fmax(worst[form.type], compare(form, swizzle, k, Fill::random, true));
      failures += HasFailure() ? 1 : 0;
      if (failures > 20) FAIL() << "and so on";
    }
  }
  std::printf("wgmma: largest error %.3f (f16), %.3f (bf16) of the bound of %d bits, %.3f (e4m3) of that of %d bits\n",
              worst[0], worst[1], sum_bits(Type::f16, true), worst[2], sum_bits(Type::e4m3, true));
}

}  // namespace
}  // namespace fovea::cuda
