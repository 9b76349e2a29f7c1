// SPDX-License-Identifier: Apache-2.0
// `fovea bench model` on a tiny model.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/run_command.h"
#include "apps/tiny_model.h"

namespace fovea::app {
namespace {

struct TinyFile {
  std::string path = ::testing::TempDir() + "fovea_bench_model_" + std::to_string(::getpid()) + ".gguf";
  TinyFile() {
    std::ofstream(path, std::ios::binary)
        << test::TinyModel(test::TinyConfig{.heads = 8, .ffn = 64, .context = 64}).writer().image();
  }
  ~TinyFile() { std::remove(path.c_str()); }

  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"bench", "model", "--model", path, "--threads", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST(BenchModel, JsonHasARowForEachPhase) {
  const TinyFile file;
  const Outcome r = fovea(file.arguments({"--prefill", "20,40", "--context", "3,30", "--decode", "5", "--samples", "3",
                                          "--chunk", "16", "--batch", "2", "--kv", "f32", "--json"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const nlohmann::json d = nlohmann::json::parse(r.out);
  EXPECT_EQ(d["threads"], 2);
  EXPECT_EQ(d["model"], file.path);
  EXPECT_EQ(d["kv"], "f32");
  EXPECT_EQ(d["chunk"], 16);
  EXPECT_EQ(d["batch"], 2);
  EXPECT_EQ(d["weights"][0]["type"], "f32");
  std::vector<std::vector<nlohmann::json>> rows;
  for (const nlohmann::json& phase : d["phases"]) {
    rows.push_back({phase["phase"], phase["tokens"], phase["context"]});
    const nlohmann::json& rates = phase["tokens_per_s"];
    EXPECT_EQ(rates["samples"].size(), 3u);
    for (const double rate : rates["samples"]) {
      EXPECT_GT(rate, 0);
      EXPECT_LE(rate, rates["best"].get<double>() * (1 + 1e-12));
    }
    EXPECT_LE(rates["median"], rates["best"]);
  }
  EXPECT_EQ(rows, (std::vector<std::vector<nlohmann::json>>{
                      {"prefill", 20, 0}, {"prefill", 40, 0}, {"decode", 5, 3}, {"decode", 5, 30}}));
}

TEST(BenchModel, TableForPeopleAndPhasesLeftOut) {
  const TinyFile file;
  const Outcome decode = fovea(file.arguments({"--prefill", "0", "--context", "7", "--decode", "4", "--samples", "1"}));
  EXPECT_EQ(decode.code, 0) << decode.err;
  EXPECT_NE(decode.out.find("decode  1 x 4   7 "), std::string::npos) << decode.out;
  EXPECT_EQ(decode.out.find("prefill"), std::string::npos) << decode.out;
  EXPECT_NE(decode.out.find("2 threads"), std::string::npos) << decode.out;
  const Outcome prefill = fovea(file.arguments({"--prefill", "9", "--decode", "0", "--samples", "1", "--isq", "q8_0"}));
  EXPECT_EQ(prefill.code, 0) << prefill.err;
  EXPECT_NE(prefill.out.find("prefill  1 x 9   0 "), std::string::npos) << prefill.out;
  EXPECT_EQ(prefill.out.find("decode"), std::string::npos) << prefill.out;
  EXPECT_NE(prefill.out.find("q8_0"), std::string::npos) << prefill.out;
}

TEST(BenchModel, FaultsAreOneLine) {
  const TinyFile file;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& part) {
    expect_fault(file.arguments(more), part);
  };
  expect_fault({"bench", "model"}, "give a model with --model");
  expect_fault({"bench", "model", "--model", "/nowhere"}, "/nowhere");
  refused({"--prefill", "65"}, "--prefill is 65: the context of " + file.path + " is 64 tokens");
  refused({"--prefill", "8", "--context", "60", "--decode", "5"}, "--context is 60 and --decode is 5: the context of ");
  refused({"--prefill", "0", "--decode", "0"}, "--prefill and --decode are 0: nothing is left to time");
  refused({"--context", "0"}, "--context");
  refused({"--prefill", "8,x"}, "--prefill");
  refused({"--samples", "0"}, "--samples");
  refused({"--kv", "f15"}, "f15");
  refused({"--isq", "q7"}, "q7");
  refused({"--hidden", "8"}, "--hidden");
}

}  // namespace
}  // namespace fovea::app
