// SPDX-License-Identifier: Apache-2.0
// fovea tokenize: the tokens of texts, for people who wonder and for programs that compare.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "engine/error.h"
#include "engine/tokenizer.h"
#include "read_file.h"

namespace fovea::app {
namespace {

struct TokenizeOptions {
  std::string model, text, strings;
  bool special = false;
};

nlohmann::json read_strings(const std::string& path) {
  nlohmann::json strings = nlohmann::json::parse(read_file(path), nullptr, false);
  const auto is_string = [](const nlohmann::json& value) { return value.is_string(); };
  if (!strings.is_array() || !std::all_of(strings.begin(), strings.end(), is_string)) {
    throw Error(path + ": is not a JSON array of strings");
  }
  return strings;
}

int run(const TokenizeOptions& o) {
  if (o.model.empty()) throw Error("give a model with --model");
  if (o.text.empty() == o.strings.empty()) throw Error("give --text or --strings");
  const Gguf file = Gguf::open(o.model);
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(file));
  const auto ids = [&](const std::string& text) { return nlohmann::json(tokenizer.encode(text, o.special)).dump(); };
  if (!o.text.empty()) {
    std::cout << ids(read_file(o.text)) << '\n';
  } else {
    std::string rows;
    for (const nlohmann::json& text : read_strings(o.strings))
      rows += (rows.empty() ? "" : ",\n") + ids(text.get<std::string>());
    std::cout << "[" << rows << "]\n";
  }
  if (!std::cout.flush()) throw Error("cannot write to the standard output");
  return 0;
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  CLI::App* c = app.add_subcommand("tokenize", "Print the tokens of a text as JSON");
  const auto o = std::make_shared<TokenizeOptions>();
  c->add_option("--model", o->model, "GGUF file, or one that holds a vocabulary alone; required")->type_name("FILE");
  c->add_option("--text", o->text, "a text: prints an array of its tokens, without BOS")->type_name("FILE");
  c->add_option("--strings", o->strings, "a JSON array of strings: prints an array for each")->type_name("FILE");
  c->add_flag("--special", o->special,
              "recognise control tokens such as <|im_end|>; otherwise they are plain characters");
  return {c, [o] { return run(*o); }};
}

}  // namespace fovea::app
