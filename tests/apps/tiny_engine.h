// SPDX-License-Identifier: Apache-2.0
// A tiny random model with what an engine needs around it.
#pragma once

#include <cstddef>
#include <fovea/fovea.hpp>
#include <random>
#include <vector>

#include "apps/tiny_model.h"
#include "engine/model.h"
#include "engine/tokenizer.h"

namespace fovea::app::test {

struct TinyEngine {
  TinyModel tiny;
  std::vector<std::byte> bytes;
  Context context;
  Model model;
  Tokenizer tokenizer;

  explicit TinyEngine(const TinyConfig& config = {}, int threads = 2) : TinyEngine(TinyModel(config), threads) {}
  explicit TinyEngine(const TinyModel& from, int threads = 2) : TinyEngine(from, from.writer(), threads) {}
  TinyEngine(const TinyModel& from, const GgufWriter& writer, int threads)
      : tiny(from),
        bytes(GgufWriter::bytes(writer.image())),
        context(ContextParams{.threads = threads}),
        model(Gguf::parse(bytes, "tiny")),
        tokenizer(TokenizerSpec::from_gguf(model.file())) {}
};

inline std::vector<Token> random_tokens(unsigned seed, size_t count) {
  std::mt19937 rng(seed);
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(2 + rng() % 259);
  return tokens;
}

}  // namespace fovea::app::test
