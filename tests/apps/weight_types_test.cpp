// SPDX-License-Identifier: Apache-2.0
// Models whose matrices have each type that a GGUF file may hold and the library reads.
#include <gtest/gtest.h>

#include <cctype>

#include "apps/tiny_engine.h"
#include "engine/engine.h"
#include "ops/weight_box.h"

namespace fovea::app {
namespace {

const GgufTensorType* gguf_type(int32_t dtype) {
  std::string name = fovea_dtype_name(dtype);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (uint32_t id = 0; id < 64; ++id) {
    if (const GgufTensorType* type = find_tensor_type(id); type != nullptr && type->name == name) return type;
  }
  return nullptr;
}

std::string bytes_of(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

// Two files of one model: matrices of random blocks, and the same weights in f32.
struct Pair {
  test::GgufWriter blocks, floats;
};
Pair pair_of(const test::TinyModel& tiny, int32_t dtype, fovea::test::Rng& rng) {
  Pair pair{tiny.writer(), tiny.writer()};
  for (size_t i = 0; i < pair.blocks.tensors.size(); ++i) {
    test::GgufWriter::Tensor &to = pair.blocks.tensors[i], &plain = pair.floats.tensors[i];
    if (to.dims.size() != 2) continue;
    const auto columns = static_cast<int64_t>(to.dims[0]), rows = static_cast<int64_t>(to.dims[1]);
    const fovea::test::WeightBox box(rng, dtype, rows, columns);
    to.type = gguf_type(dtype)->id;
    to.data = bytes_of(box.row(0), static_cast<size_t>(fovea_dtype_bytes(dtype, rows * columns)));
    const std::vector<double> values = box.values();
    const std::vector<float> f32(values.begin(), values.end());
    plain.data = bytes_of(f32.data(), f32.size() * sizeof(float));
  }
  return pair;
}

std::vector<float> logits(const test::TinyModel& tiny, const test::GgufWriter& writer) {
  const test::TinyEngine s(tiny, writer, 2);
  std::vector<float> all;
  Hooks hooks;
  hooks.on_logits = [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); };
  EngineOptions options;
  options.kv = format_of(FOVEA_CODEC_F32);
  const std::vector<Request> requests = {{{5, 17, 40, 90, 3}, 3, {}}};
  Engine(s.context, s.model, s.tokenizer, options).run(requests, hooks);
  return all;
}

// Weights are decoded to f32 before anything else is done with them, so not a bit differs.
TEST(WeightTypes, LogitsAreThoseOfTheSameWeightsInF32) {
  fovea::test::Rng rng = fovea::test::test_rng();
  for (const int32_t dtype : fovea::test::kWeightDtypes) {
    SCOPED_TRACE(::testing::Message() << fovea_dtype_name(dtype) << ' ' << fovea::test::seed_note());
    ASSERT_NE(gguf_type(dtype), nullptr);
    const test::TinyModel tiny({.layers = 1, .hidden = 256, .heads = 8, .kv_heads = 2, .d = 32, .ffn = 256});
    const Pair pair = pair_of(tiny, dtype, rng);
    const std::vector<float> have = logits(tiny, pair.blocks), want = logits(tiny, pair.floats);
    ASSERT_EQ(have.size(), 3u * 261);
    for (size_t i = 0; i < have.size(); ++i) {
      ASSERT_TRUE(std::isfinite(want[i]));
      ASSERT_EQ(have[i], want[i]) << "logit " << i;
    }
  }
}

}  // namespace
}  // namespace fovea::app
