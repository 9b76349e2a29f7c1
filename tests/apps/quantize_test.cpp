// SPDX-License-Identifier: Apache-2.0
// Weights quantised while a model is loaded: which, to what, and that the memory of what they were is given back.
#include "engine/quantize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/model_file.h"
#include "apps/tiny_model.h"
#include "engine/engine.h"

namespace fovea::app {
namespace {

using test::TinyConfig;
using test::TinyModel;

TinyConfig whole_blocks() {
  return {.hidden = 64, .heads = 4, .kv_heads = 2, .d = 16, .ffn = 96};
}

std::vector<Tensor> matrices(const LayerWeights& l) {
  return {l.wq, l.wk, l.wv, l.wo, l.w_gate, l.w_up, l.w_down};
}

template <class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// The values of a matrix, through the library.
std::vector<float> values(const Context& context, const Tensor& w) {
  std::vector<int32_t> ids(static_cast<size_t>(w.shape[0]));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::vector<float> out(static_cast<size_t>(w.shape[0] * w.shape[1]));
  embed(context,
        {.ids = tensor(ids.data(), {w.shape[0]}), .table = w, .out = tensor(out.data(), {w.shape[0], w.shape[1]})});
  return out;
}

TEST(QuantizeModel, LinearLayersAndNothingElse) {
  const Context context;
  for (const bool tied : {true, false}) {
    TinyConfig config = whole_blocks();
    config.tied = tied;
    config.biases = true;
    const std::vector<std::byte> bytes = test::GgufWriter::bytes(TinyModel(config).writer().image());
    const Model before(Gguf::parse(bytes, "m"));
    Model model(Gguf::parse(bytes, "m"));
    model.quantize(context, FOVEA_Q8_0);
    EXPECT_EQ(model.output().dtype, FOVEA_Q8_0);
    EXPECT_EQ(model.embedding().dtype, tied ? FOVEA_Q8_0 : FOVEA_F32);
    EXPECT_EQ(model.embedding().data == model.output().data, tied);
    EXPECT_EQ(model.output_norm().data, before.output_norm().data);
    int64_t linear = 0;
    for (size_t i = 0; i < model.layers().size(); ++i) {
      const LayerWeights &now = model.layers()[i], &was = before.layers()[i];
      EXPECT_EQ(now.attn_norm.data, was.attn_norm.data);
      EXPECT_EQ(now.ffn_norm.data, was.ffn_norm.data);
      EXPECT_EQ(now.bq.data, was.bq.data);
      for (size_t j = 0; j < matrices(now).size(); ++j) {
        const Tensor w = matrices(now)[j];
        ASSERT_EQ(w.dtype, FOVEA_Q8_0);
        const std::vector<float> want = values(context, matrices(was)[j]), got = values(context, w);
        double error = 0, all = 0;
        for (size_t k = 0; k < want.size(); ++k) {
          error += std::pow(want[k] - got[k], 2);
          all += std::pow(want[k], 2);
        }
        EXPECT_LT(error, all * 0.006 * 0.006);
        EXPECT_GT(error, 0);
        linear += static_cast<int64_t>(want.size());
      }
    }
    const int64_t table = int64_t{config.vocab} * config.hidden;
    const std::vector<WeightUse> uses = model.weights();
    ASSERT_EQ(uses.size(), 2u);
    for (const WeightUse& use : uses) {
      if (use.dtype == FOVEA_Q8_0) {
        EXPECT_EQ(use.bytes, (linear + table) / 32 * 34);
      }
    }
  }
}

TEST(QuantizeModel, AnswersStayNearThoseOfTheFile) {
  const Context context;
  const TinyModel tiny(whole_blocks());
  const std::vector<std::byte> bytes = test::GgufWriter::bytes(tiny.writer().image());
  Model model(Gguf::parse(bytes, "m"));
  model.quantize(context, FOVEA_Q8_0);
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
  const std::vector<Token> prompt = {5, 17, 40, 90, 3};
  std::vector<float> logits;
  Hooks hooks;
  hooks.on_logits = [&](size_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); };
  EngineOptions options;
  options.codec = FOVEA_CODEC_F32;
  const std::vector<Request> requests = {{prompt, 1, {}}};
  Engine(context, model, tokenizer, options).run(requests, hooks);
  const std::vector<double> want = tiny.logits({prompt.begin(), prompt.end()});
  ASSERT_EQ(logits.size(), want.size());
  double error = 0, all = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(logits[i]) - want[i], 2);
    all += std::pow(want[i], 2);
  }
  EXPECT_LT(std::sqrt(error / all), 0.05);
  EXPECT_GT(std::sqrt(error / all), 1e-4) << "the weights are those of the file";
}

TEST(QuantizeModel, FaultsNameTheTensor) {
  const Context context;
  const auto message = [&](const TinyConfig& config, int32_t type,
                           const std::function<void(test::GgufWriter*)>& change = nullptr) {
    test::GgufWriter w = TinyModel(config).writer();
    if (change) change(&w);
    const std::vector<std::byte> bytes = test::GgufWriter::bytes(w.image());
    return message_of([&] { Model(Gguf::parse(bytes, "m")).quantize(context, type); });
  };
  TinyConfig odd = whole_blocks();
  odd.ffn = 48;
  EXPECT_EQ(message(odd, FOVEA_Q8_0),
            "m: tensor 'blk.0.ffn_down.weight' has rows of 48 weights: q8_0 needs a multiple of 32");
  EXPECT_EQ(message(odd, FOVEA_Q6_K),
            "m: tensor 'blk.0.ffn_down.weight' has rows of 48 weights: q8_0 needs a multiple of 32");
  EXPECT_EQ(message(whole_blocks(), FOVEA_Q4_1), "");
  EXPECT_EQ(message(whole_blocks(), FOVEA_Q4_1,
                    [](test::GgufWriter* w) {
                      for (test::GgufWriter::Tensor& t : w->tensors) {
                        if (t.name == "blk.1.attn_v.weight") t.data.replace(400, 4, test::GgufWriter::raw(NAN));
                      }
                    }),
            "m: tensor 'blk.1.attn_v.weight' has weights that are not finite");
  EXPECT_EQ(message_of([] { parse_quantized_type("f16"); }), "--isq is f16: must be one of " + quantized_type_names());
}

TEST(QuantizeModel, RowsThatAreNoWholeBlocksTakeSmallerOnes) {
  const Context context;
  TinyConfig config = whole_blocks();
  config.ffn = 256;
  const std::vector<std::byte> bytes = test::GgufWriter::bytes(TinyModel(config).writer().image());
  for (const auto& [type, instead] : {std::pair{FOVEA_Q2_K, FOVEA_IQ4_NL},
                                      {FOVEA_Q3_K, FOVEA_IQ4_NL},
                                      {FOVEA_Q4_K, FOVEA_Q5_0},
                                      {FOVEA_Q5_K, FOVEA_Q5_1},
                                      {FOVEA_Q6_K, FOVEA_Q8_0}}) {
    Model model(Gguf::parse(bytes, "m"));
    model.quantize(context, type);
    EXPECT_EQ(model.layers()[0].w_down.dtype, type);
    EXPECT_EQ(model.layers()[0].w_up.dtype, instead);
    EXPECT_EQ(model.output().dtype, instead);
  }
}

// SmolLM2's own weights, of three layers: relative RMS errors, and what llama.cpp's quantisers leave on them
// (bench/peers/quantize_errors.py). The file is q4_1, whose values q4_1 and q5_1 hold exactly. Blocks of 256: ffn_down.
struct RealError {
  int32_t type;
  double reference;
};
constexpr RealError kRealErrors[] = {{FOVEA_Q4_0, 0.08812}, {FOVEA_Q4_1, 0},         {FOVEA_Q5_0, 0.04463},
                                     {FOVEA_Q5_1, 0},       {FOVEA_Q8_0, 0.00561},   {FOVEA_Q2_K, 0.30788},
                                     {FOVEA_Q3_K, 0.15609}, {FOVEA_Q4_K, 0.01899},   {FOVEA_Q5_K, 0.01979},
                                     {FOVEA_Q6_K, 0.01814}, {FOVEA_IQ4_NL, 0.07631}, {FOVEA_MXFP4, 0.11820}};

TEST(QuantizeModel, ErrorsOfRealWeights) {
  FOVEA_NEEDS_MODEL();
  const Context context;
  const Model model(Gguf::open(test::model_path()));
  for (const RealError& row : kRealErrors) {
    double error = 0, all = 0;
    for (const size_t layer : {0, 14, 29}) {
      for (const Tensor& w : matrices(model.layers()[layer])) {
        if (type_for_rows(row.type, w.shape[1]) != row.type) continue;
        const std::vector<std::byte> bytes = quantized(context, w, row.type);
        const std::vector<float> want = values(context, w);
        const std::vector<float> got =
            values(context, tensor(const_cast<std::byte*>(bytes.data()), row.type, {w.shape[0], w.shape[1]}));
        for (size_t i = 0; i < want.size(); ++i) {
          const double r = static_cast<double>(got[i]) - static_cast<double>(want[i]);
          error += r * r;
          all += static_cast<double>(want[i]) * static_cast<double>(want[i]);
        }
      }
    }
    const double relative = std::sqrt(error / all);
    RecordProperty(fovea_dtype_name(row.type), std::to_string(relative));
    EXPECT_LE(relative, row.reference) << fovea_dtype_name(row.type);
  }
}

// kB of a file's mapping that are in memory for this process.
int64_t resident(const std::string& path) {
  std::ifstream in("/proc/self/smaps");
  int64_t kilobytes = 0;
  bool of_file = false;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find('-') != std::string::npos && first.back() != ':') of_file = line.ends_with(path);
    int64_t size = 0;
    if (of_file && first == "Rss:" && words >> size) kilobytes += size;
  }
  return kilobytes;
}

TEST(QuantizeModel, MemoryOfTheFileIsGivenBack) {
  const TinyConfig config = {.layers = 2, .hidden = 256, .heads = 8, .kv_heads = 8, .d = 32, .ffn = 1024};
  const std::string path = ::testing::TempDir() + "fovea_quantize_" + std::to_string(::getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary) << TinyModel(config).writer().image();
  {
    const Context context;
    Model model(Gguf::open(path));
    for (const LayerWeights& l : model.layers()) {
      for (const Tensor& w : matrices(l)) values(context, w);
    }
    values(context, model.embedding());
    const int64_t before = resident(path);
    ASSERT_GT(before, 8000);
    model.quantize(context, FOVEA_Q4_1);
    EXPECT_LT(resident(path), before / 20);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace fovea::app
