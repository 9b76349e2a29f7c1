// SPDX-License-Identifier: Apache-2.0
// From a model's configuration to the calls that it makes, and to a bundle that serves them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fovea/fovea.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/gguf_writer.h"
#include "apps/run_command.h"
#include "bench/case.h"
#include "deploy/deployment.h"
#include "engine/error.h"

namespace fovea::app {
namespace {

std::string fixture(const std::string& name) {
  return FOVEA_SOURCE_DIR "/tests/apps/configs/" + name + ".json";
}
ModelAttention model(const std::string& name) {
  return read_model_attention(fixture(name));
}
std::string error_of(const std::string& config) {
  try {
    parse_config(config, "f");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

struct Folder {
  std::string path = testing::TempDir() + "fovea_deploy_" + std::to_string(::getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(ModelConfig, Llama) {
  const ModelAttention m = model("llama");
  EXPECT_EQ(m.type, "llama");
  EXPECT_EQ(m.dtype, FOVEA_BF16);
  EXPECT_EQ(m.max_positions, 131072);
  EXPECT_TRUE(m.rope);
  EXPECT_FALSE(m.qk_norm);
  EXPECT_EQ(m.rope_style, FOVEA_ROPE_NEOX);
  ASSERT_EQ(m.layers.size(), 1u);
  const AttentionLayers& l = m.layers[0];
  EXPECT_EQ(l.name, "full");
  EXPECT_EQ(l.heads, 32);
  EXPECT_EQ(l.kv_heads, 8);
  EXPECT_EQ(l.d_k, 128) << "hidden_size / num_attention_heads";
  EXPECT_EQ(l.d_v, 128);
  EXPECT_EQ(l.window, 0);
}

TEST(ModelConfig, Qwen3HasNormsAndNoWindow) {
  const ModelAttention m = model("qwen3");
  EXPECT_TRUE(m.qk_norm);
  ASSERT_EQ(m.layers.size(), 1u);
  EXPECT_EQ(m.layers[0].d_k, 128) << "head_dim, not hidden_size / num_attention_heads";
}

TEST(ModelConfig, Gemma2HasASoftcapAndBothKindsOfLayers) {
  const ModelAttention m = model("gemma2");
  EXPECT_EQ(m.dtype, FOVEA_F32);
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_EQ(m.layers[0].window, 0);
  EXPECT_EQ(m.layers[1].window, 4096);
  for (const AttentionLayers& l : m.layers) {
    EXPECT_EQ(l.softcap, 50);
    EXPECT_EQ(l.d_k, 256);
  }
}

TEST(ModelConfig, Gemma3StandsInsideAModelThatSees) {
  const ModelAttention m = model("gemma3");
  EXPECT_EQ(m.type, "gemma3_text");
  EXPECT_EQ(m.dtype, FOVEA_BF16) << "of the outer level";
  EXPECT_TRUE(m.qk_norm);
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_EQ(m.layers[0].heads, 8);
  EXPECT_EQ(m.layers[1].window, 1024);
  EXPECT_EQ(m.layers[1].softcap, 0) << "null";
}

TEST(ModelConfig, GptOssHasSinks) {
  const ModelAttention m = model("gpt_oss");
  EXPECT_EQ(m.dtype, FOVEA_BF16) << "dtype, the newer name";
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_TRUE(m.layers[0].sinks && m.layers[1].sinks);
  EXPECT_EQ(m.layers[1].window, 128);
  EXPECT_EQ(m.layers[1].d_k, 64);
}

TEST(ModelConfig, EveryLayerOfMistralSlides) {
  const ModelAttention m = model("mistral");
  ASSERT_EQ(m.layers.size(), 1u);
  EXPECT_EQ(m.layers[0].window, 4096);
}

TEST(ModelConfig, DeepSeekIsAbsorbedFromTheCacheAndExpandedBefore) {
  const ModelAttention m = model("deepseek");
  EXPECT_EQ(m.rotary_dim, 64);
  EXPECT_EQ(m.rope_style, FOVEA_ROPE_GPTJ);
  ASSERT_EQ(m.layers.size(), 2u);
  const AttentionLayers &absorbed = m.layers[0], &expanded = m.layers[1];
  EXPECT_EQ(absorbed.heads, 128);
  EXPECT_EQ(absorbed.kv_heads, 1);
  EXPECT_EQ(absorbed.d_k, 576);
  EXPECT_EQ(absorbed.d_v, 512);
  EXPECT_TRUE(absorbed.v_in_k && absorbed.cached && !absorbed.fresh);
  EXPECT_EQ(expanded.kv_heads, 128);
  EXPECT_EQ(expanded.d_k, 192);
  EXPECT_EQ(expanded.d_v, 128);
  EXPECT_TRUE(!expanded.v_in_k && !expanded.cached && expanded.fresh);
}

TEST(ModelConfig, Llama4HasChunks) {
  const ModelAttention m = model("llama4");
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_EQ(m.layers[1].chunk, 8192);
}

TEST(ModelConfig, OtherNamesOfTheSameFields) {
  const ModelAttention falcon = parse_config(
      R"({"model_type": "falcon", "n_head": 71, "hidden_size": 4544, "multi_query": true, "alibi": true})", "f");
  EXPECT_EQ(falcon.dtype, 0);
  EXPECT_EQ(falcon.layers[0].kv_heads, 1);
  EXPECT_TRUE(falcon.layers[0].alibi);
  EXPECT_FALSE(falcon.rope);
  const ModelAttention phi = parse_config(
      R"({"model_type": "phi", "num_attention_heads": 32, "hidden_size": 2560, "partial_rotary_factor": 0.4})", "f");
  EXPECT_EQ(phi.rotary_dim, 32);
  const ModelAttention qwen2 = parse_config(
      R"({"model_type": "qwen2", "num_attention_heads": 4, "hidden_size": 256, "sliding_window": 99, "use_sliding_window": false})",
      "f");
  EXPECT_EQ(qwen2.layers.size(), 1u);
  EXPECT_EQ(qwen2.layers[0].window, 0);
}

TEST(ModelConfig, FaultsNameTheField) {
  EXPECT_EQ(error_of("[]"), "f: is neither a config.json nor a GGUF file");
  EXPECT_EQ(error_of("{"), "f: is neither a config.json nor a GGUF file");
  EXPECT_EQ(error_of("{}"), "f: num_attention_heads is missing");
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(error_of("{\"n_head\": " + deep + "}"), "f: is nested deeper than 64");
  EXPECT_EQ(error_of(R"({"num_attention_heads": 8, "hidden_size": 64, "torch_dtype": "\u001b[31m"})"),
            "f: torch_dtype is \"?[31m\": must be bfloat16, float16 or float32");
  EXPECT_EQ(error_of(R"({"num_attention_heads": 8})"), "f: hidden_size is missing");
  EXPECT_EQ(error_of(R"({"num_attention_heads": "8"})"),
            "f: num_attention_heads is \"8\": must be a whole number from 0 to 1073741824");
  EXPECT_EQ(error_of(R"({"num_attention_heads": [8, 16]})").find("f: num_attention_heads is [8,16]: must be"), 0u);
  EXPECT_EQ(error_of(R"({"num_attention_heads": 8, "hidden_size": 64, "num_key_value_heads": 3})"),
            "f: num_attention_heads is 8: must be a multiple of num_key_value_heads, 3, and at most hidden_size");
  EXPECT_EQ(error_of(R"({"num_attention_heads": 8, "hidden_size": 64, "torch_dtype": "int4"})"),
            "f: torch_dtype is \"int4\": must be bfloat16, float16 or float32");
  EXPECT_EQ(error_of(R"({"num_attention_heads": 8, "kv_lora_rank": 512})"), "f: qk_rope_head_dim is missing");
  EXPECT_EQ(error_of(R"({"num_attention_heads": 8, "hidden_size": 64, "attn_logit_softcapping": -1})"),
            "f: attn_logit_softcapping is -1: must be a number that is not negative");
}

TEST(ModelConfig, Gguf) {
  const Folder folder;
  const std::string path = folder.path + "/m.gguf";
  const auto write = [&](test::GgufWriter& writer) { std::ofstream(path, std::ios::binary) << writer.image(); };
  test::GgufWriter gemma;
  gemma.string("general.architecture", "gemma2").u32("gemma2.attention.head_count", 8);
  gemma.u32("gemma2.attention.head_count_kv", 4)
      .u32("gemma2.embedding_length", 2304)
      .u32("gemma2.context_length", 8192);
  gemma.u32("gemma2.attention.key_length", 256).u32("gemma2.attention.value_length", 256);
  gemma.u32("gemma2.attention.sliding_window", 4096).f32("gemma2.attn_logit_softcapping", 50);
  write(gemma);
  const ModelAttention g = read_model_attention(path);
  EXPECT_EQ(g.dtype, 0);
  EXPECT_EQ(g.max_positions, 8192);
  ASSERT_EQ(g.layers.size(), 2u);
  EXPECT_EQ(g.layers[0].d_k, 256);
  EXPECT_EQ(g.layers[1].window, 4096);
  EXPECT_EQ(g.layers[1].softcap, 50);

  test::GgufWriter deepseek;
  deepseek.string("general.architecture", "deepseek2").u32("deepseek2.attention.head_count", 16);
  deepseek.u32("deepseek2.embedding_length", 2048).u32("deepseek2.attention.kv_lora_rank", 512);
  deepseek.u32("deepseek2.rope.dimension_count", 64).u32("deepseek2.attention.key_length_mla", 192);
  deepseek.u32("deepseek2.attention.value_length_mla", 128);
  write(deepseek);
  const ModelAttention d = read_model_attention(path);
  ASSERT_EQ(d.layers.size(), 2u);
  EXPECT_EQ(d.layers[0].d_k, 576);
  EXPECT_EQ(d.layers[1].d_v, 128);
}

TEST(Deployment, EveryPhaseIsPlannedAtEverySize) {
  const std::vector<DeployedCase> cases =
      cases_of(model("gpt_oss"),
               {.codecs = {FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}, .max_tokens = 100, .max_batch = 9, .max_len = 999});
  std::set<std::string> kinds;
  std::set<int64_t> q_lens;
  for (const DeployedCase& c : cases) {
    kinds.insert(c.what);
    EXPECT_LE(c.shape.batch * c.shape.q_len, c.op == FOVEA_OP_ATTENTION && c.shape.q_len <= 8 ? 9 * 8 : 100);
    if (c.op == FOVEA_OP_ATTENTION) {
      q_lens.insert(c.shape.q_len);
      EXPECT_TRUE(c.shape.sinks);
    }
    EXPECT_EQ(c.shape.type, FOVEA_BF16);
  }
  EXPECT_EQ(q_lens, (std::set<int64_t>{1, 2, 4, 8, 16, 100}));
  for (const char* kind :
       {"attention, prefill, full layers", "attention, chunked prefill, sliding layers, kv fp8",
        "attention, decode, full layers, kv bf16", "attention, decode of drafts, full layers, kv fp8",
        "kv_append, with rope and norm, full layers, kv fp8", "kv_append, plain, full layers, kv bf16",
        "merge_states, full layers"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

// The CPU takes them all, so each case is a sound call.
TEST(Deployment, TheCpuTakesEveryCaseOfEveryModel) {
  const Context cpu({.threads = 1});
  for (const auto& entry : std::filesystem::directory_iterator(FOVEA_SOURCE_DIR "/tests/apps/configs")) {
    const Deployment deployment{.codecs = {FOVEA_CODEC_BF16, FOVEA_CODEC_FP8}, .max_len = 1 << 20};
    for (const DeployedCase& c : cases_of(read_model_attention(entry.path()), deployment)) {
      const Support support = bench::supports(cpu, c.op, c.shape);
      EXPECT_TRUE(static_cast<bool>(support)) << entry.path() << " " << c.what << ": " << support.reason;
    }
  }
}

TEST(CompileCommand, FaultsAreOneLine) {
  const std::string llama = fixture("llama");
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> line = {"compile", "--arch", "80", "--model-config", llama, "-o", "/dev/null"};
    line.insert(line.end(), more.begin(), more.end());
    return line;
  };
  expect_fault({"compile"}, "--arch is required");
  expect_fault({"compile", "--arch", "80"}, "--model-config is required");
  expect_fault({"compile", "--arch", "80", "--model-config", llama}, "--output is required");
  expect_fault({"compile", "--arch", "91", "--model-config", llama, "-o", "x"},
               "arch is \"91\": must be one of 70, 75");
  expect_fault({"compile", "--arch", "80", "--model-config", "/none", "-o", "x"}, "/none: cannot open: No such file");
  expect_fault(with({"--kv", "bf16,fp9"}), "--kv is fp9: must be one of f32, f16, bf16, fp8");
  expect_fault(with({"--kv-scale", "row"}), "--kv-scale is row: must be one of none, tensor");
  expect_fault(with({"--dtype", "int8"}), "--dtype is int8: must be one of f32, f16, bf16");
  expect_fault(with({"--layout", "dhn"}), "--layout is dhn: must be one of nhd, hnd");
  expect_fault(with({"--max-tokens", "0"}), "--max-tokens");
  const Folder folder;
  std::ofstream(folder.path + "/config.json") << R"({"num_attention_heads": 4, "hidden_size": 256})";
  expect_fault({"compile", "--arch", "80", "--model-config", folder.path, "-o", "x"}, "give --dtype");
}

TEST(CompileCommand, ItsBundleServesTheModelWithoutACompiler) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "most of it is NVRTC, which is not ours to check";
#endif
  const Folder folder;
  const Deployment deployment{.codecs = {FOVEA_CODEC_BF16}, .max_tokens = 32, .max_batch = 2, .max_len = 1024};
  const Outcome r =
      fovea({"compile", "--arch", "80,90a", "--model-config", fixture("llama"), "-o", folder.path + "/out",
             "--max-tokens", "32", "--max-batch", "2", "--max-len", "1024", "--cache", "none"});
  for (const char* missing : {"NVRTC is not there", "no kernel\n  not served"}) {
    if (r.out.find(missing) != std::string::npos) GTEST_SKIP() << r.out;
  }
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(r.out.rfind("llama, bf16; full layers: 32 heads, 8 kv heads, d 128\nsm_80: ", 0), 0u) << r.out;
  for (const char* arch : {"80", "90a"}) {
    const std::string bundle = folder.path + "/out/fovea-sm_" + arch + ".bundle";
    const auto context = [&](const std::string& file, int32_t compile) {
      return Context(
          {.device_type = FOVEA_CUDA, .compile = compile, .bundle = file.c_str(), .cache_dir = "", .arch = arch});
    };
    const Context deployed = context(bundle, FOVEA_COMPILE_NEVER), anywhere = context("", FOVEA_COMPILE_ALLOWED);
    size_t served = 0;
    for (const DeployedCase& c : cases_of(model("llama"), deployment)) {
      if (!bench::supports(anywhere, c.op, c.shape)) continue;
      ++served;
      EXPECT_EQ(bench::supports(deployed, c.op, c.shape).answer, FOVEA_SUPPORT_YES) << arch << " " << c.what;
    }
    EXPECT_GT(served, 0u);
    const Outcome info = fovea({"info", "--bundle", bundle, "--json"});
    ASSERT_EQ(info.code, 0) << info.err;
    const nlohmann::json document = nlohmann::json::parse(info.out);
    EXPECT_EQ(document["about"].get<std::string>().rfind(std::string("sm_") + arch + ", ", 0), 0u) << info.out;
    EXPECT_FALSE(document["kernels"].empty());
  }
}

}  // namespace
}  // namespace fovea::app
