// SPDX-License-Identifier: Apache-2.0
// The `fovea` command as a user meets it: exit codes, one-line messages, output.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/gguf_writer.h"
#include "apps/model_file.h"
#include "apps/run_command.h"
#include "apps/tiny_model.h"

namespace fovea::app {
namespace {

// A directory that goes away with the test.
struct Folder {
  std::string path = ::testing::TempDir() + "fovea_cli_" + std::to_string(::getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name, std::ios::binary) << text;
    return path + "/" + name;
  }
};

TEST(Cli, HelpAndVersion) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"generate", "--help"},
                                                    {"perplexity", "--help"},
                                                    {"info", "--help"},
                                                    {"--version"}}) {
    const Outcome r = fovea(arguments);
    EXPECT_EQ(r.code, 0);
    EXPECT_EQ(r.err, "");
    EXPECT_NE(r.out, "");
  }
  for (const char* option : {"--model",
                             "--prompt",
                             "--prompts",
                             "--no-chat",
                             "--system",
                             "--kv",
                             "--page-size",
                             "--chunk",
                             "--device",
                             "--threads",
                             "--temperature",
                             "--top-k",
                             "--top-p",
                             "--min-p",
                             "--seed",
                             "--repetition-penalty",
                             "--presence-penalty",
                             "--frequency-penalty",
                             "--logprobs",
                             "-n"}) {
    EXPECT_NE(fovea({"generate", "--help"}).out.find(option), std::string::npos) << option;
  }
}

TEST(Cli, InfoPrintsTheSupportTables) {
  const Outcome r = fovea({"info", "--support"});
  EXPECT_EQ(r.code, 0);
  for (const char* op : {"`attention`", "`matmul`", "### Attention: head dims"}) {
    EXPECT_NE(r.out.find(op), std::string::npos) << op;
  }
  expect_fault({"info", "--support", "--json"}, "--json");
}

TEST(Cli, Info) {
  const Outcome text = fovea({"info"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("cpu:0"), std::string::npos);
  const Outcome json = fovea({"info", "--json"});
  EXPECT_EQ(json.code, 0);
  const nlohmann::json document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["devices"][0]["backend"], "cpu");
  EXPECT_NE(document["devices"][0]["isa"], "");
  EXPECT_EQ(document["operations"][0], "attention");
}

TEST(Cli, InfoSaysWhyThereIsNoDevice) {
  const Outcome r = fovea({"info"});
  EXPECT_TRUE(r.out.find("cuda:0") != std::string::npos ||
              r.out.find("not available: no CUDA driver") != std::string::npos ||
              r.out.find("not available: the CUDA driver finds no device") != std::string::npos)
      << r.out;
}

TEST(Cli, FaultsAreOneLineAndExitCode2) {
  const Folder folder;
  expect_fault({"info", "--bundle", folder.path + "/none"}, "cannot open it");
  expect_fault({"info", "--bundle", folder.write("b", "no bundle")}, "is not a kernel bundle");
  expect_fault({"info", "--bundle", "b", "--support"}, "--support");
  const std::string text = folder.write("text.gguf", "hello, I am no model");
  const std::string empty = folder.write("empty.txt", "\n\n");
  const std::string other =
      folder.write("other.gguf", test::GgufWriter().string("general.architecture", "mamba").image());
  expect_fault({}, "subcommand is required");
  expect_fault({"frobnicate"}, "unknown command 'frobnicate'");
  expect_fault({"generate", "--bogus"}, "--bogus");
  expect_fault({"info", "extra"}, "extra");
  expect_fault({"generate", "--prompt", "x"}, "give a model with --model");
  expect_fault({"generate", "--model", "m"}, "give a prompt with --prompt or --prompts");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--prompts", "y"}, "not both");
  expect_fault({"generate", "--model", "m", "--prompts", folder.path + "/none"}, "none: cannot open: No such file");
  expect_fault({"generate", "--model", "m", "--prompts", empty}, "holds no prompt");
  expect_fault({"generate", "--model", folder.path + "/none", "--prompt", "x"}, "none: cannot open: No such file");
  expect_fault({"generate", "--model", folder.path, "--prompt", "x"}, "not a regular file");
  expect_fault({"generate", "--model", text, "--prompt", "x"}, "not a GGUF file");
  expect_fault({"generate", "--model", other, "--prompt", "x"},
               "architecture 'mamba' is not supported, only llama, qwen2");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--top-p", "1.5"}, "--top-p");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--top-p", "0.5"}, "--top-p: has no effect");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--seed", "5"}, "--seed: has no effect");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--temperature", "nan"}, "--temperature");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--repetition-penalty", "0"}, "--repetition-penalty");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--presence-penalty", "nan"}, "--presence-penalty");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--logprobs", "3"}, "--logprobs needs --json");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "-n", "0"}, "--max-tokens: Value 0");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--kv", "f15"}, "allowed are f32, f16, bf16, fp8");
  expect_fault(
      {"generate", "--model", "m", "--prompt", "x", "--isq", "f16"},
      "--isq is f16: must be one of e4m3, q4_1, q8_0, q4_0, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, mxfp4");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--device", "tpu"}, "must be cpu, cuda or metal");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--device", "cpu:x"}, "must be cpu, cuda or metal");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--isa", "Z80"}, "Z80");
  expect_fault({"generate", "--model", "m", "--prompt", "x", "--no-chat", "--system", "s"}, "--no-chat");
}

std::vector<std::string> generate(std::initializer_list<std::string> more) {
  std::vector<std::string> arguments = {"generate", "--model", test::model_path()};
  arguments.insert(arguments.end(), more);
  return arguments;
}

TEST(Cli, GenerateAnswersAndReports) {
  FOVEA_NEEDS_MODEL();
  const Outcome r = fovea(generate({"--prompt", "What is the capital of France?", "-n", "12"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "The capital of France is Paris.\n");
  for (const char* word : {"prefill", "decode", "tokens/s", "bytes/token", "attention", "matmul", "kv_append"}) {
    EXPECT_NE(r.err.find(word), std::string::npos) << word << "\n" << r.err;
  }
}

TEST(Cli, GenerateManyPromptsInOrder) {
  FOVEA_NEEDS_MODEL();
  const Folder folder;
  const std::string prompts = folder.write("prompts.txt", "1, 2, 3, 4,\n\nThe capital of France is\r\n1, 2, 3, 4,\n");
  const Outcome r = fovea(generate({"--prompts", prompts, "--no-chat", "-n", "6"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(
      r.out,
      "[1] 1, 2, 3, 4,\n 5, 6,\n\n[2] The capital of France is\n Paris.\n\nThe answer\n\n[3] 1, 2, 3, 4,\n 5, 6,\n");
}

TEST(Cli, GenerateLogprobsAndPenalties) {
  FOVEA_NEEDS_MODEL();
  const auto answer = [](std::initializer_list<std::string> more) {
    std::vector<std::string> line = {"--prompt", "1, 2, 3, 4,", "--no-chat", "-n", "4", "--json", "--kv", "f32"};
    line.insert(line.end(), more);
    std::vector<std::string> arguments = {"generate", "--model", test::model_path()};
    arguments.insert(arguments.end(), line.begin(), line.end());
    const Outcome r = fovea(arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    return nlohmann::json::parse(r.out)["answers"][0];
  };
  const nlohmann::json plain = answer({"--logprobs", "3"});
  ASSERT_EQ(plain["logprobs"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {  // greedy: the token is the likeliest
    const nlohmann::json& x = plain["logprobs"][i];
    EXPECT_EQ(x["top"].size(), 3u);
    EXPECT_EQ(x["top"][0]["token"], plain["tokens"][i]);
    EXPECT_EQ(x["top"][0]["logprob"], x["logprob"]);
    EXPECT_LE(x["logprob"], 0.0);
    EXPECT_LE(x["top"][1]["logprob"], x["logprob"]);
  }
  EXPECT_FALSE(answer({}).contains("logprobs"));
  const nlohmann::json tokens = answer({"--frequency-penalty", "1000"})["tokens"];
  EXPECT_NE(tokens, plain["tokens"]);
  EXPECT_EQ(std::set<int>(tokens.begin(), tokens.end()).size(), 4u) << "no token twice";
}

TEST(Cli, GenerateJson) {
  FOVEA_NEEDS_MODEL();
  const Outcome r = fovea(generate({"--prompt", "1, 2, 3, 4,", "--no-chat", "-n", "3", "--json", "--kv", "f32"}));
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
  const nlohmann::json d = nlohmann::json::parse(r.out);
  EXPECT_EQ(d["answers"][0]["text"], " 5,");
  EXPECT_EQ(d["answers"][0]["tokens"], (std::vector<int>{216, 37, 28}));
  EXPECT_EQ(d["answers"][0]["finish"], "length");
  EXPECT_EQ(d["cache"]["bytes_per_token"], 30 * 3 * (64 + 64) * 4);
  EXPECT_EQ(d["weights"][0], (nlohmann::json{{"type", "q4_1"}, {"tensors", 210}, {"bytes", 66355200}}));
  EXPECT_EQ(d["prefill"]["tokens"], 11);
  EXPECT_EQ(d["decode"]["tokens"], 2);
}

TEST(Cli, GenerateGoesOnAfterTheEnd) {
  FOVEA_NEEDS_MODEL();
  const Outcome r =
      fovea(generate({"--prompt", "What is the capital of France?", "-n", "12", "--ignore-eos", "--json"}));
  EXPECT_EQ(r.code, 0) << r.err;
  const nlohmann::json answer = nlohmann::json::parse(r.out)["answers"][0];
  EXPECT_EQ(answer["finish"], "length");
  EXPECT_EQ(answer["tokens"].size(), 12u);
  EXPECT_EQ(answer["text"].get<std::string>().rfind("The capital of France is Paris.", 0), 0u);
}

TEST(Cli, GenerateWithQuantisedWeights) {
  FOVEA_NEEDS_MODEL();
  const Outcome r = fovea(generate({"--prompt", "What is the capital of France?", "-n", "12", "--isq", "q8_0"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "The capital of France is Paris.\n");
  EXPECT_NE(r.err.find("weights"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("q8_0 142.9 MB, f32 0.1 MB"), std::string::npos) << r.err;
}

TEST(Cli, ModelFaultsThatNeedTheRealModel) {
  FOVEA_NEEDS_MODEL();
  expect_fault(generate({"--prompt", "", "--no-chat"}), "prompt 1 is empty");
  expect_fault(generate({"--prompt", "hello", "--cache-tokens", "16"}), "KV cache of 16 tokens is too small");
  const Folder folder;
  const std::string truncated = folder.path + "/truncated.gguf";
  std::filesystem::copy_file(test::model_path(), truncated);
  std::filesystem::resize_file(truncated, 50'000'000);
  expect_fault({"generate", "--model", truncated, "--prompt", "x"}, "leaves the file");
}

TEST(Cli, Tokenize) {
  const Folder folder;
  const std::string text = folder.write("text", "hello <|end|>");
  const std::string strings = folder.write("strings.json", "[\"hell\", \"\", \"<|end|>\"]");
  const std::string model = folder.write("tiny.gguf", test::TinyModel({}).writer().image());
  const Outcome one = fovea({"tokenize", "--model", model, "--text", text});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "[260,113,34,62,126,103,112,102,126,64]\n");
  const Outcome many = fovea({"tokenize", "--model", model, "--strings", strings, "--special"});
  EXPECT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(many.out, "[[260],\n[],\n[0]]\n");
  expect_fault({"tokenize", "--text", text}, "give a model with --model");
  expect_fault({"tokenize", "--model", model}, "give --text or --strings");
  expect_fault({"tokenize", "--model", model, "--text", text, "--strings", strings}, "give --text or --strings");
  expect_fault({"tokenize", "--model", model, "--strings", text}, "is not a JSON array of strings");
  expect_fault({"tokenize", "--model", model, "--strings", folder.write("numbers", "[1]")},
               "is not a JSON array of strings");
}

std::vector<std::string> perplexity(const std::string& text, std::initializer_list<std::string> more) {
  std::vector<std::string> arguments = {"perplexity", "--model", test::model_path(), "--text", text};
  arguments.insert(arguments.end(), more);
  return arguments;
}

TEST(Cli, PerplexityFaults) {
  const Folder folder;
  const std::string text = folder.write("text", "hello");
  expect_fault({"perplexity", "--text", text}, "give a model with --model");
  expect_fault({"perplexity", "--model", "m"}, "give a text with --text");
  expect_fault({"perplexity", "--model", "m", "--text", folder.path + "/none"},
               "none: cannot open: No such file or directory");
  expect_fault({"perplexity", "--model", "m", "--text", folder.path}, "cannot read: Is a directory");
  expect_fault({"perplexity", "--model", folder.path + "/none", "--text", text}, "none: cannot open");
  expect_fault({"perplexity", "--model", "m", "--text", text, "--kv", "f16,f15"},
               "KV format 'f15' does not exist, allowed are f32, f16, bf16, fp8, i8, q6, q5, q4, q3, q2, fp8:tensor");
  expect_fault({"perplexity", "--model", "m", "--text", text, "--ctx", "1"}, "--ctx");
  expect_fault({"perplexity", "--model", "m", "--text", text, "--step", "0"}, "--step");
}

TEST(Cli, PerplexityFaultsThatNeedTheRealModel) {
  FOVEA_NEEDS_MODEL();
  const Folder folder;
  expect_fault(perplexity(folder.write("empty", ""), {}), "the text has 0 tokens, at least 2 are needed");
  expect_fault(perplexity(folder.write("short", "hello"), {}), "the text has 1 tokens");
  expect_fault(perplexity(folder.write("text", "1 2 3 4"), {"--stride", "7"}), "a stride of 7 tokens");
  expect_fault(perplexity(folder.write("text", "1 2 3 4"), {"--ctx", "100000"}), "the model's context of 8192");
}

TEST(Cli, PerplexityPrintsARowForEachFormat) {
  FOVEA_NEEDS_MODEL();
  const Folder folder;
  const std::string text = folder.write("text", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19");
  const Outcome table = fovea(perplexity(text, {"--kv", "f16,fp8:head", "--ctx", "16"}));
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.err, "");
  for (const char* word : {"f16 ", "fp8:head ", "KL p99", "same top-1", "11520", "chunks of 16", "caches", "thread"}) {
    EXPECT_NE(table.out.find(word), std::string::npos) << word << "\n" << table.out;
  }
  const Outcome json =
      fovea(perplexity(text, {"--kv", "f16,fp8", "--ctx", "16", "--stride", "4", "--chunks", "2", "--json"}));
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.err, "");
  const nlohmann::json d = nlohmann::json::parse(json.out);
  EXPECT_EQ(d["chunks"], nlohmann::json({{"count", 2}, {"tokens", 16}, {"stride", 4}}));
  EXPECT_EQ(d["scored"], 8);
  EXPECT_EQ(d["bos"], false);
  EXPECT_EQ(d["formats"][0]["kv"], "f16");
  EXPECT_EQ(d["formats"][0]["delta"], nullptr);
  EXPECT_EQ(d["formats"][1]["kv"], "fp8:token_head");
  EXPECT_EQ(d["formats"][1]["bytes_per_token"], 30 * 3 * (128 + 8));
  EXPECT_EQ(d["formats"][1]["tokens"], 30);
  EXPECT_GT(d["formats"][1]["kl_mean"], 0);
  EXPECT_DOUBLE_EQ(d["formats"][1]["delta"],
                   d["formats"][1]["perplexity"].get<double>() - d["formats"][0]["perplexity"].get<double>());
}

TEST(Cli, InterruptEndsCleanlyWithTheReport) {
  FOVEA_NEEDS_MODEL();
  const Outcome r = fovea(generate({"--prompt", "1, 2, 3, 4,", "--no-chat", "-n", "4000"}), 8);
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_EQ(r.out.rfind(" 5, 6", 0), 0u) << r.out;
  EXPECT_NE(r.err.find("decode"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("fovea: interrupted\n"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace fovea::app
