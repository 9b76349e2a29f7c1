// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "apps/run_command.h"
#include "bench/case.h"
#include "bench/measure.h"

namespace {

using namespace fovea::bench;
using fovea::app::expect_fault;

// The words of a line as arguments of `fovea bench`; what it printed.
std::vector<std::string> arguments(const std::string& line) {
  std::istringstream words("bench " + line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string output(const std::string& line) {
  const fovea::app::Outcome r = fovea::app::fovea(arguments(line));
  EXPECT_EQ(r.code, 0) << line;
  EXPECT_EQ(r.err, "") << line;
  return r.out;
}

Shape tiny(Shape s) {
  s.batch = 2;
  s.q_len = std::min<int64_t>(s.q_len, 3);
  s.kv_len = 37;
  s.hidden = s.ffn = s.n = s.k = 64;
  s.vocab = 100;
  s.pages = 3;
  return s;
}

std::vector<int32_t> every_operation() {
  std::vector<int32_t> ops;
  for (const Word& op : operations()) ops.push_back(op.value);
  return ops;
}

class EveryOperation : public testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Bench, EveryOperation, testing::ValuesIn(every_operation()),
                         [](const auto& row) { return fovea_op_name(row.param); });

TEST_P(EveryOperation, RunsEveryPresetAtSmallLengths) {
  const fovea::Context context({.threads = 2});
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    Shape shape;
    apply_preset(GetParam(), preset.name, shape);
    const std::unique_ptr<Case> c = make_case(context, host_memory(), GetParam(), tiny(shape), 1 << 16, 7);
    ASSERT_GE(c->sets(), 2u);
    for (uint64_t set = 0; set < c->sets(); ++set) c->run(set);
    EXPECT_GT(c->work().bytes, 0);
  }
}

TEST_P(EveryOperation, PrintsJsonThatAddsUp) {
  const std::string line = std::string(fovea_op_name(GetParam())) +
                           " --preset smollm2-decode --threads 2 --samples 5 --memory 1 --seed 3 --json";
  const nlohmann::json json = nlohmann::json::parse(output(line));
  EXPECT_EQ(json["version"], fovea_version());
  EXPECT_EQ(json["op"], fovea_op_name(GetParam()));
  EXPECT_EQ(json["preset"], "smollm2-decode");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_FALSE(json["isa"].get<std::string>().empty());
  EXPECT_EQ(json["data"]["seed"], 3);
  EXPECT_GE(json["data"]["sets"], 2);
  const double median = json["seconds"]["median"], bytes = json["work"]["bytes"], flops = json["work"]["flops"];
  EXPECT_EQ(json["seconds"]["samples"], 5);
  EXPECT_LE(json["seconds"]["min"], median);
  EXPECT_GE(json["seconds"]["p90"], median);
  EXPECT_DOUBLE_EQ(json["gb_per_s"], bytes / median / 1e9);
  EXPECT_DOUBLE_EQ(json["gflop_per_s"], flops / median / 1e9);
  const nlohmann::json& roof = json["roof"];
  const double read = roof["read_gb_per_s"], copy = roof["copy_gb_per_s"], bandwidth = std::max(read, copy) * 1e9;
  const double arithmetic = roof["fma_gflop_per_s"].get<double>() * 1e9;
  EXPECT_NEAR(roof["percent"], 100 * std::max(bytes / bandwidth, flops / arithmetic) / median, 1e-6);
  for (const auto& row : json["shape"].items()) {
    EXPECT_TRUE(std::ranges::any_of(options(), [&](const Option& o) {
      return o.applies_to(GetParam()) && row.key() == o.key();
    })) << row.key();
  }
}

TEST(Bench, OptionsOverrideThePreset) {
  const std::string line = "norm --samples 1 --memory 1 --json --hidden 32 --preset llama8b-decode --residual";
  const nlohmann::json shape = nlohmann::json::parse(output(line))["shape"];
  EXPECT_EQ(shape["hidden"], 32);
  EXPECT_EQ(shape["batch"], 8);
  EXPECT_EQ(shape["residual"], true);
}

TEST(Bench, PrintsAReportForPeople) {
  const std::string text = output("norm --samples 3 --memory 1 --threads 2 --hidden 64");
  for (const char* word :
       {"norm     --batch 8", "kernel   norm: ", "2 threads", "sets in turn", "median ", "GB/s", " % of "}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
}

TEST(Bench, PresetsNameOptionsThatExist) {
  for (const Preset& preset : presets()) {
    std::istringstream words(preset.options);
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) continue;
      EXPECT_TRUE(std::ranges::any_of(options(), [&](const Option& o) { return word == o.name; })) << word;
    }
  }
}

TEST(Bench, OptionsOfOneOperationHaveOneNameEach) {
  for (const Word& op : operations()) {
    std::vector<std::string> names;
    for (const Option& o : options()) {
      if (o.applies_to(op.value)) names.push_back(o.name);
    }
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << op.name;
    EXPECT_FALSE(names.empty()) << op.name;
  }
}

TEST(Bench, RefusesBadOptionsInOneLine) {
  const auto refused = [](const std::string& line, const std::string& part) { expect_fault(arguments(line), part); };
  refused("attention --kv f15", "--kv is f15: must be one of f32, f16, bf16, fp8");
  refused("norm --hidden 0", "--hidden is 0: must be a number from 1 to 1048576");
  refused("norm --hidden 12x", "--hidden is 12x: must be a number from 1 to 1048576");
  refused("sample --top-p nan", "--top-p is nan: must be a number from 0 to 1");
  refused("norm --preset gpt7", "--preset is gpt7: `fovea bench --list-presets` names them");
  refused("attention --window 8 --chunk-size 8", "--chunk-size is given: not together with --window");
  refused("attention --mask none --window 8", "--mask is none: --window and --chunk-size need --mask causal");
  refused("attention --q-len 9 --kv-len 8", "--kv-len is 8: must be at least --q-len, 9");
  refused("norm --batch 16384 --q-len 65536 --hidden 1048576", "of memory: at most ");
  refused("", "give an operation, or model; fovea bench --help names them");
  refused("gemm", "gemm");
  refused("norm --vocab 8", "--vocab");
  refused("norm --threads -1", "-1");
  refused("norm --samples 0", "--samples");
  refused("norm --device tpu", "--device is 'tpu'");
  refused("norm --isa MMX", "MMX");
}

TEST(Bench, HelpNamesEveryOption) {
  for (const Word& op : operations()) {
    const std::string help = output(std::string(op.name) + " --help");
    for (const Option& option : options()) {
      if (!option.applies_to(op.value)) continue;
      EXPECT_NE(help.find(option.name), std::string::npos) << op.name << option.name;
    }
    EXPECT_NE(output("--help").find(op.name), std::string::npos) << op.name;
  }
}

TEST(Bench, ListsPresets) {
  const std::string text = output("--list-presets");
  EXPECT_NE(text.find("llama8b-decode"), std::string::npos);
  EXPECT_EQ(std::ranges::count(text, '\n'), static_cast<int64_t>(presets().size()));
}

// Counts pairs of a query and a key that it sees one by one.
double pairs(const Shape& s) {
  double count = 0;
  for (int64_t i = 0; i < s.q_len; ++i) {
    const int64_t p = s.kv_len - s.q_len + i;
    for (int64_t j = 0; j < s.kv_len; ++j) {
      const bool causal = s.mask == FOVEA_MASK_NONE || j <= p;
      const bool window = s.window == 0 || j > p - s.window;
      const bool chunk = s.chunk == 0 || j / s.chunk == p / s.chunk;
      count += causal && window && chunk;
    }
  }
  return count;
}

TEST(Bench, CountsTheWorkOfAttention) {
  Shape s = tiny(Shape());
  s.q_len = 11;
  s.kv_len = 37;
  for (int64_t window : {0, 1, 5, 100}) {
    for (int64_t chunk : {0, 1, 8, 100}) {
      for (int32_t mask : {FOVEA_MASK_NONE, FOVEA_MASK_CAUSAL}) {
        if ((window && chunk) || (mask == FOVEA_MASK_NONE && (window || chunk))) continue;
        s.window = window;
        s.chunk = chunk;
        s.mask = mask;
        EXPECT_EQ(attention_work(s).flops, pairs(s) * 2 * 32 * 2 * (128 + 128)) << window << " " << chunk;
      }
    }
  }
}

TEST(Bench, CountsTheBytesOfAttention) {
  Shape s;  // 8 sequences of 4096 tokens, 8 kv heads of 128 dims; Q and output f32
  const double q_and_out = 2 * 8 * 32 * 128 * 4;
  EXPECT_EQ(attention_work(s).bytes, q_and_out + 8 * 4096 * 8 * 2 * 128 * 2.0);
  s.codec = FOVEA_CODEC_FP8;
  s.scale_kind = FOVEA_SCALE_TOKEN_HEAD;
  EXPECT_EQ(attention_work(s).bytes, q_and_out + 8 * 4096 * 8 * 2 * (128 + 4.0));
  s.window = 100;
  EXPECT_EQ(attention_work(s).bytes, q_and_out + 8 * 100 * 8 * 2 * (128 + 4.0));
}

TEST(Bench, RandomDataIsFiniteAndRepeats) {
  Data a(Data::kFilled, 5), b(Data::kFilled, 5);
  const fovea::Tensor x = a.random(FOVEA_F32, {1000}), y = b.random(FOVEA_F32, {1000});
  const auto* values = static_cast<const float*>(x.data);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(std::fabs(values[i]), 0.125f);
    EXPECT_LT(std::fabs(values[i]), 2.0f);
  }
  EXPECT_EQ(std::memcmp(x.data, y.data, 4000), 0);
  const fovea::Tensor fp8 = a.random(FOVEA_E4M3, {1000});
  for (int i = 0; i < 1000; ++i) EXPECT_NE(static_cast<const uint8_t*>(fp8.data)[i] & 0x7f, 0x7f);  // NaN
}

TEST(Bench, SizesAloneTakeNoMemory) {
  Data sizes(Data::kSizesOnly, 0);
  EXPECT_EQ(sizes.random(FOVEA_Q8_0, {1 << 20, 1 << 20}).data, nullptr);
  EXPECT_EQ(sizes.bytes(), uint64_t{34} << 35);
  EXPECT_THROW(sizes.random(FOVEA_Q8_0, {4, 40}), fovea::Error);
}

TEST(Bench, TheRoofIsMeasured) {
  const Roof roof = measure_roof(2, fovea::Context().info().isa, 1 << 20);
  EXPECT_GT(roof.read_bytes_per_s, 0);
  EXPECT_GT(roof.copy_bytes_per_s, 0);
  EXPECT_GT(roof.flops_per_s, 0);
  EXPECT_EQ(roof.bytes_per_s(), std::max(roof.read_bytes_per_s, roof.copy_bytes_per_s));
}

}  // namespace
