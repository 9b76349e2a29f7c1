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

std::vector<Matrix> matrices(const LayerWeights& l) {
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
std::vector<float> values(const Context& context, const Matrix& w) {
  const int64_t rows = w.values.shape[0], columns = w.values.shape[1];
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::vector<float> out(static_cast<size_t>(rows * columns));
  embed(context, {.ids = tensor(ids.data(), {rows}),
                  .table = w.values,
                  .table_scale = w.scale,
                  .out = tensor(out.data(), {rows, columns})});
  return out;
}

// What is off, over what there is; both as root mean squares.
double relative_error(std::span<const float> got, std::span<const float> want) {
  double error = 0, all = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    all += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / all);
}

struct TypeError {
  int32_t type;
  double most;  // relative error of random weights
};
constexpr TypeError kTypeErrors[] = {{FOVEA_Q8_0, 0.006}, {FOVEA_E4M3, 0.03}};

void linear_layers_and_nothing_else(const TypeError& to) {
  const Context context;
  for (const bool tied : {true, false}) {
    TinyConfig config = whole_blocks();
    config.tied = tied;
    config.biases = true;
    const std::vector<std::byte> bytes = test::GgufWriter::bytes(TinyModel(config).writer().image());
    const Model before(Gguf::parse(bytes, "m"));
    Model model(Gguf::parse(bytes, "m"));
    model.quantize(context, to.type);
    EXPECT_EQ(model.output().values.dtype, to.type);
    EXPECT_EQ(model.embedding().values.dtype, tied ? to.type : FOVEA_F32);
    EXPECT_EQ(model.embedding().values.data == model.output().values.data, tied);
    EXPECT_EQ(model.output_norm().data, before.output_norm().data);
    int64_t linear = 0, outputs = config.vocab;
    for (size_t i = 0; i < model.layers().size(); ++i) {
      const LayerWeights &now = model.layers()[i], &was = before.layers()[i];
      EXPECT_EQ(now.attn_norm.data, was.attn_norm.data);
      EXPECT_EQ(now.ffn_norm.data, was.ffn_norm.data);
      EXPECT_EQ(now.bq.data, was.bq.data);
      for (size_t j = 0; j < matrices(now).size(); ++j) {
        const Matrix w = matrices(now)[j];
        ASSERT_EQ(w.values.dtype, to.type);
        const std::vector<float> want = values(context, matrices(was)[j]), got = values(context, w);
        EXPECT_LT(relative_error(got, want), to.most);
        EXPECT_GT(relative_error(got, want), 0);
        linear += static_cast<int64_t>(want.size());
        outputs += w.values.shape[0];
      }
    }
    const int64_t table = int64_t{config.vocab} * config.hidden;
    const std::vector<WeightUse> uses = model.weights();
    ASSERT_EQ(uses.size(), 2u);
    for (const WeightUse& use : uses) {
      if (use.dtype == to.type) {
        EXPECT_EQ(use.bytes, fovea_dtype_bytes(to.type, linear + table) + (to.type == FOVEA_E4M3 ? 4 * outputs : 0));
      }
    }
  }
}

TEST(QuantizeModel, LinearLayersAndNothingElse) {
  for (const TypeError& to : kTypeErrors) {
    SCOPED_TRACE(fovea_dtype_name(to.type));
    linear_layers_and_nothing_else(to);
  }
}

TEST(QuantizeModel, ATypeWithScalesCanBeQuantisedOnceMore) {
  const Context context;
  const std::vector<std::byte> bytes = test::GgufWriter::bytes(TinyModel(whole_blocks()).writer().image());
  const Model before(Gguf::parse(bytes, "m"));
  Model model(Gguf::parse(bytes, "m"));
  model.quantize(context, FOVEA_E4M3);
  model.quantize(context, FOVEA_Q8_0);
  const Matrix& w = model.layers()[1].w_up;
  EXPECT_EQ(w.values.dtype, FOVEA_Q8_0);
  EXPECT_EQ(w.scale.dtype, FOVEA_DTYPE_NONE);
  EXPECT_LT(relative_error(values(context, w), values(context, before.layers()[1].w_up)), 0.03);
}

void answers_stay_near_those_of_the_file(int32_t type, double most) {
  const Context context;
  const TinyModel tiny(whole_blocks());
  const std::vector<std::byte> bytes = test::GgufWriter::bytes(tiny.writer().image());
  Model model(Gguf::parse(bytes, "m"));
  model.quantize(context, type);
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
  const std::vector<Token> prompt = {5, 17, 40, 90, 3};
  std::vector<float> logits;
  Hooks hooks;
  hooks.on_logits = [&](size_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); };
  EngineOptions options;
  options.kv = format_of(FOVEA_CODEC_F32);
  const std::vector<Request> requests = {{prompt, 1, {}}};
  Engine(context, model, tokenizer, options).run(requests, hooks);
  const std::vector<double> want = tiny.logits({prompt.begin(), prompt.end()});
  ASSERT_EQ(logits.size(), want.size());
  double error = 0, all = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(logits[i]) - want[i], 2);
    all += std::pow(want[i], 2);
  }
  EXPECT_LT(std::sqrt(error / all), most);
  EXPECT_GT(std::sqrt(error / all), 1e-4) << "the weights are those of the file";
}

TEST(QuantizeModel, AnswersStayNearThoseOfTheFile) {
  answers_stay_near_those_of_the_file(FOVEA_Q8_0, 0.05);
  answers_stay_near_those_of_the_file(FOVEA_E4M3, 0.2);
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
    EXPECT_EQ(model.layers()[0].w_down.values.dtype, type);
    EXPECT_EQ(model.layers()[0].w_up.values.dtype, instead);
    EXPECT_EQ(model.output().values.dtype, instead);
  }
}

// SmolLM2's own weights, of three layers: relative RMS errors, and what llama.cpp's quantisers leave on them
// (bench/peers/quantize_errors.py), e4m3 apart, which they have not. The file is q4_1, whose values q4_1 and q5_1 hold
// exactly. Blocks of 256: ffn_down.
struct RealError {
  int32_t type;
  double reference;
};
constexpr RealError kRealErrors[] = {{FOVEA_Q4_0, 0.08812}, {FOVEA_Q4_1, 0},         {FOVEA_Q5_0, 0.04463},
                                     {FOVEA_Q5_1, 0},       {FOVEA_Q8_0, 0.00561},   {FOVEA_Q2_K, 0.30788},
                                     {FOVEA_Q3_K, 0.15609}, {FOVEA_Q4_K, 0.01899},   {FOVEA_Q5_K, 0.01979},
                                     {FOVEA_Q6_K, 0.01814}, {FOVEA_IQ4_NL, 0.07631}, {FOVEA_MXFP4, 0.11820},
                                     {FOVEA_E4M3, 0.0247}};

TEST(QuantizeModel, ErrorsOfRealWeights) {
  FOVEA_NEEDS_MODEL();
  const Context context;
  const Model model(Gguf::open(test::model_path()));
  for (const RealError& row : kRealErrors) {
    double error = 0, all = 0;
    for (const size_t layer : {0, 14, 29}) {
      for (const Matrix& w : matrices(model.layers()[layer])) {
        if (type_for_rows(row.type, w.values.shape[1]) != row.type) continue;
        const Quantized q = quantized(context, w, row.type);
        const std::vector<float> want = values(context, w), got = values(context, q.matrix);
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
      for (const Matrix& w : matrices(l)) values(context, w);
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
