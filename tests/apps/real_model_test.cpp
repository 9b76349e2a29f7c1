// SPDX-License-Identifier: Apache-2.0
// The engine on SmolLM2-135M-Instruct (Q4_1) against figures of the same model computed in f64 with numpy from the
// dequantised weights.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>

#include "apps/model_file.h"
#include "engine/engine.h"
#include "engine/prompt.h"

namespace fovea::app {
namespace {

// The first tensor of the table that does not end before the cut.
std::string first_cut(const Gguf& file, const std::byte* cut) {
  for (const GgufTensor& t : file.tensors()) {
    if (t.data + t.bytes > cut) return std::string(t.name);
  }
  return "";
}

TEST(RealModel, ACutAtEachTensorAndPairIsNamed) {
  FOVEA_NEEDS_MODEL();
  std::ifstream in(test::model_path(), std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  const std::span<const std::byte> all = std::as_bytes(std::span(bytes));
  const Gguf file = Gguf::parse(all, "m.gguf");
  const auto error_at = [&](const void* cut) -> std::string {
    const auto kept = static_cast<size_t>(static_cast<const std::byte*>(cut) - all.data());
    try {
      Gguf::parse(all.first(kept), "m.gguf");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor& t = file.tensors()[i];
    const std::byte* cut = t.data + (i % 3 == 0 ? 0 : i % 3 == 1 ? t.bytes / 2 : t.bytes - 1);
    const std::string message = error_at(cut), name = "tensor '" + first_cut(file, cut) + "' of ";
    EXPECT_NE(message.find(name), std::string::npos) << message << "\nwanted: " << name;
    EXPECT_NE(message.find("leaves the file"), std::string::npos) << message;
  }
  for (const auto& [key, value] : file.metadata()) {
    const std::string message = error_at(key.data() + key.size() + 2);
    // Near the start the counts are what cannot be.
    const bool count = message.find("the number of ") != std::string::npos;
    EXPECT_TRUE(count || message.find("the type of metadata '" + std::string(key) + "'") != std::string::npos)
        << key << ": " << message;
  }
}

struct Loaded {
  Context context;
  Model model{Gguf::open(test::model_path())};
  Tokenizer tokenizer{TokenizerSpec::from_gguf(model.file())};
};

const Loaded& loaded() {
  static const Loaded l;
  return l;
}

struct Expectation {
  const char* prompt;
  bool chat;
  int64_t max_new_tokens;
  const char* answer;
  std::vector<std::pair<Token, double>> best;  // the largest logits after the prompt
  double norm;                                 // L2 norm of all of them
};

const Expectation kExpected[] = {
    {"The capital of France is",
     false,
     24,
     " Paris.\n\nThe answer is: 2018-01-22 12:1",
     {{7042, 17.371259}, {260, 14.888589}, {4528, 13.244974}, {2250, 13.009467}, {1315, 12.951514}},
     892.136944},
    {"What is the capital of France?",
     true,
     32,
     "The capital of France is Paris.",
     {{504, 25.325383}, {60, 25.243283}, {15319, 24.942420}, {2219, 24.401674}, {7026, 24.314632}},
     1721.854025},
    {"1, 2, 3, 4,",
     false,
     16,
     " 5, 6, 7, 8, 9, ",
     {{216, 21.673534}, {284, 18.173069}, {4563, 16.743276}, {2686, 16.373762}, {731, 16.339738}},
     762.576039},
};

std::vector<Request> expected_requests() {
  std::vector<Request> requests;
  const Tokenizer& tokenizer = loaded().tokenizer;
  const ChatTemplate chat = ChatTemplate::from_gguf(loaded().model.file());
  for (const Expectation& e : kExpected) {
    requests.push_back({e.chat ? chat_prompt(tokenizer, chat, nullptr, e.prompt) : plain_prompt(tokenizer, e.prompt),
                        e.max_new_tokens,
                        {}});
  }
  return requests;
}

TEST(RealModel, FirstLogitsAndGreedyTextAreThoseOfTheF64Model) {
  FOVEA_NEEDS_MODEL();
  const Loaded& l = loaded();
  for (const auto& [codec, tolerance] : {std::pair{FOVEA_CODEC_F32, 2e-4}, std::pair{FOVEA_CODEC_F16, 2e-2}}) {
    EngineOptions options;
    options.kv = format_of(codec);
    std::vector<std::vector<float>> first(std::size(kExpected));
    Hooks hooks;
    hooks.on_logits = [&](size_t request, std::span<const float> row) {
      if (first[request].empty()) first[request].assign(row.begin(), row.end());
    };
    const RunResult r = Engine(l.context, l.model, l.tokenizer, options).run(expected_requests(), hooks);
    for (size_t i = 0; i < std::size(kExpected); ++i) {
      const Expectation& e = kExpected[i];
      EXPECT_EQ(l.tokenizer.decode(r.answers[i].tokens), e.answer);
      double squares = 0;
      for (const float v : first[i]) squares += static_cast<double>(v) * v;
      EXPECT_NEAR(std::sqrt(squares), e.norm, e.norm * tolerance / 10) << e.prompt;
      for (const auto& [token, logit] : e.best) {
        EXPECT_NEAR(first[i][static_cast<size_t>(token)], logit, tolerance) << e.prompt << ", token " << token;
      }
    }
  }
}

TEST(RealModel, ChunksPagesAndBatchesChangeNoToken) {
  FOVEA_NEEDS_MODEL();
  const Loaded& l = loaded();
  std::vector<Request> requests = expected_requests();
  for (Request& r : requests) r.max_new_tokens = 6;
  requests.push_back(requests[1]);
  requests[3].prompt.back() += 1;  // shares all but the last token
  const auto run = [&](const EngineOptions& options, std::span<const Request> some) {
    std::vector<std::vector<Token>> tokens;
    for (const Answer& a : Engine(l.context, l.model, l.tokenizer, options).run(some).answers)
      tokens.push_back(a.tokens);
    return tokens;
  };
  std::vector<std::vector<Token>> alone;
  for (const Request& r : requests) alone.push_back(run({}, {&r, 1})[0]);
  EngineOptions options;
  EXPECT_EQ(run(options, requests), alone);
  options.chunk = 7;
  options.page_size = 5;
  EXPECT_EQ(run(options, requests), alone);
}

}  // namespace
}  // namespace fovea::app
