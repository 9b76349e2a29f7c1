// SPDX-License-Identifier: Apache-2.0
#include "engine/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/gguf_writer.h"
#include "apps/model_file.h"
#include "engine/utf8.h"

namespace fovea::app {
namespace {

using test::GgufWriter;

nlohmann::json fixture(const std::string& name) {
  std::ifstream in(std::string(FOVEA_SOURCE_DIR) + "/tests/apps/fixtures/" + name);
  return nlohmann::json::parse(in);
}

// A vocabulary of all 256 bytes (token b is byte b), a few merges, two control tokens and a user-defined one.
struct SmallVocabulary {
  std::vector<std::string> texts;
  TokenizerSpec spec;

  explicit SmallVocabulary(const std::string& pre = "gpt-2") {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      texts.push_back(character(itself ? byte : next++));
    }
    for (const char* merged : {"ab", "cd", "abcd", "bc", "<|end|>", "<|end|>x", "{tool}", "aa", "aaaa"})
      texts.push_back(merged);
    spec.source = "small";
    spec.pre = pre;
    spec.tokens.assign(texts.begin(), texts.end());
    spec.types.assign(texts.size(), TokenizerSpec::kNormal);
    spec.types[260] = spec.types[261] = TokenizerSpec::kControl;
    spec.types[262] = TokenizerSpec::kUserDefined;
    spec.merges = {"b c", "a b", "c d", "ab cd", "a a", "aa aa"};
    spec.ends = {260};
  }

  static std::string character(unsigned code) {
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  }
};

using Tokens = std::vector<Token>;

TEST(Tokenizer, MergesByRankThenLeftmost) {
  const Tokenizer t(SmallVocabulary().spec);
  EXPECT_EQ(t.encode("ab"), Tokens({256}));
  EXPECT_EQ(t.encode("abcd"), Tokens({'a', 259, 'd'}));  // "b c" comes first and blocks the rest
  EXPECT_EQ(t.encode("aaa"), Tokens({263, 'a'}));
  EXPECT_EQ(t.encode("aaaaaa"), Tokens({264, 263}));
  EXPECT_EQ(t.encode(""), Tokens());
}

TEST(Tokenizer, WholeWordsAreTakenWhereTheFamilyDoes) {
  SmallVocabulary v("llama-bpe");
  v.spec.add_bos = 0;
  EXPECT_EQ(Tokenizer(v.spec).encode("abcd"), Tokens({258}));
}

TEST(Tokenizer, AddedTokensLongestFirstAndOnlyWhereAllowed) {
  const Tokenizer t(SmallVocabulary().spec);
  EXPECT_EQ(t.encode("a<|end|>b"), Tokens({'a', 260, 'b'}));
  EXPECT_EQ(t.encode("<|end|>x"), Tokens({261}));
  EXPECT_EQ(t.encode("<|end|"), Tokens({'<', '|', 'e', 'n', 'd', '|'}));
  EXPECT_EQ(t.encode("<|end|>", false), Tokens({'<', '|', 'e', 'n', 'd', '|', '>'}));
  EXPECT_EQ(t.encode("{tool}", false), Tokens({262}));
  const TextSpan spans[] = {{"a", true}, {"b<|end|>", false}, {"<|end|>", true}};
  EXPECT_EQ(t.encode(spans), Tokens({256, '<', '|', 'e', 'n', 'd', '|', '>', 260}));  // "ab" merges across spans
  EXPECT_TRUE(t.is_end(260));
  EXPECT_FALSE(t.is_end(261));
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const Tokenizer t(SmallVocabulary().spec);
  const Tokens replacement = {0xef, 0xbf, 0xbd};
  EXPECT_EQ(t.encode("\xff"), replacement);
  EXPECT_EQ(t.encode("\xe2\x82"), replacement);    // one unfinished character, one replacement
  EXPECT_EQ(t.encode("\xed\xa0\x80").size(), 9u);  // a surrogate: three invalid bytes
  EXPECT_EQ(t.encode("\xf0\x9f\x98\x80"), Tokens({0xf0, 0x9f, 0x98, 0x80}));
  EXPECT_EQ(t.encode(std::string_view("\0", 1)), Tokens({0}));
}

TEST(Tokenizer, StreamHoldsBackUnfinishedCharacters) {
  const Tokenizer t(SmallVocabulary().spec);
  StreamDecoder stream(t);
  EXPECT_EQ(stream.push(0xf0), "");
  EXPECT_EQ(stream.push(0x9f), "");
  EXPECT_EQ(stream.push(260), "");  // a control token shows nothing and interrupts nothing
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\xf0\x9f\x98\x80");
  EXPECT_EQ(stream.push(0xe2), "");
  EXPECT_EQ(stream.push('a'),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(StreamDecoder(t, true).push(260), "<|end|>");
  EXPECT_THROW(stream.push(-1), Error);
  EXPECT_THROW(stream.push(t.vocab_size()), Error);
}

TEST(Tokenizer, EncodeThenDecodeIsTheText) {
  const Tokenizer t(SmallVocabulary("qwen2").spec);
  std::mt19937 rng(3);
  const std::string_view parts[] = {"a",   "bc", " ", "\n", "1", "\xc3\xa9", "\xe4\xb8\x96", "\xf0\x9f\x98\x80",
                                    "'ll", "<|", "d"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < round % 40; ++i) text += parts[rng() % std::size(parts)];
    EXPECT_EQ(t.decode(t.encode(text, false)), text);
  }
}

TEST(Tokenizer, FaultyMetadataIsNamed) {
  const auto message = [](const TokenizerSpec& spec) -> std::string {
    try {
      Tokenizer t(spec);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  SmallVocabulary v;
  v.spec.pre = "klingon";
  EXPECT_NE(message(v.spec).find("small: unknown pre-tokenizer 'klingon' in tokenizer.ggml.pre; known are gpt-2"),
            std::string::npos);
  v.spec.pre = "smollm";
  v.spec.merges.push_back("ab");
  EXPECT_EQ(message(v.spec), "small: merge 6 is not two tokens with a space between");
  v.spec.merges.back() = "d d";
  EXPECT_EQ(message(v.spec), "small: merge 6 uses 'dd', which is not in the vocabulary");
  v.spec.merges.pop_back();
  v.spec.add_bos = 1;
  EXPECT_EQ(message(v.spec), "small: prompts must start with BOS, but no bos_token_id is given");
}

TEST(Tokenizer, FaultyFilesAreNamed) {
  const auto message = [](const GgufWriter& writer) -> std::string {
    const std::vector<std::byte> bytes = GgufWriter::bytes(writer.image());
    try {
      TokenizerSpec::from_gguf(Gguf::parse(bytes, "m"));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto writer = [](const std::string& model) {
    GgufWriter w;
    w.string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", {"a", "b"});
    w.strings("tokenizer.ggml.merges", {});
    return w;
  };
  EXPECT_EQ(message(writer("gpt2")), "");
  EXPECT_EQ(message(writer("llama")), "m: tokenizer model 'llama' is not supported, only gpt2 (byte BPE)");
  EXPECT_EQ(message(writer("gpt2").u32("tokenizer.ggml.eos_token_id", 2)),
            "m: metadata 'tokenizer.ggml.eos_token_id' is 2, but the vocabulary has 2 tokens");
  EXPECT_EQ(message(writer("gpt2").ints("tokenizer.ggml.token_type", {1})),
            "m: tokenizer.ggml.token_type has 1 entries for 2 tokens");
  EXPECT_EQ(message(writer("gpt2").ints("tokenizer.ggml.token_type", {1, 9})),
            "m: token 1 has type 9, allowed are 1 to 6");
}

// Words as the reference splits them; made by fixtures/make_fixtures.py.
TEST(PreTokenizer, SplitsLikeTheReference) {
  const nlohmann::json cases = fixture("words.json");
  ASSERT_GE(cases.size(), 8u);
  for (const auto& [name, rows] : cases.items()) {
    const PreTokenizer pre(name, "test");
    ASSERT_GT(rows.size(), 100u);
    for (const auto& row : rows) {
      const auto text = row[0].get<std::string>();
      std::vector<std::string> words;
      for (const std::string_view word : pre.split(text)) words.emplace_back(word);
      EXPECT_EQ(words, row[1].get<std::vector<std::string>>()) << name << ": " << row[0];
    }
  }
}

TEST(PreTokenizer, LongRunsNeedLinearTimeAndMemory) {
  for (const char* name : {"smollm", "llama-bpe", "tekken", "gpt-4o", "deepseek-v3", "default"}) {
    const PreTokenizer pre(name, "test");
    for (const char* unit : {" ", "a", "A", "\n", "!", "1", "\xe4\xb8\x96", " a", "a ", "\xcc\x81"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      text += "x";
      const auto start = std::chrono::steady_clock::now();
      size_t total = 0;
      for (const std::string_view word : pre.split(text)) total += word.size();
      EXPECT_EQ(total, text.size()) << name << " " << unit;
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << name << " " << unit;
    }
  }
}

TEST(Tokenizer, LongWordsAreNotQuadratic) {
  const Tokenizer t(SmallVocabulary().spec);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(t.encode(std::string(1 << 20, 'a')), Tokens(1 << 18, 264));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Tokenizer, RealVocabularyMatchesTheReference) {
  FOVEA_NEEDS_MODEL();
  const Gguf file = Gguf::open(test::model_path());
  const Tokenizer t(TokenizerSpec::from_gguf(file));
  EXPECT_EQ(t.vocab_size(), 49152);
  EXPECT_EQ(t.bos(), 1);
  EXPECT_TRUE(t.is_end(2) && t.is_end(0));
  EXPECT_FALSE(t.adds_bos());
  const nlohmann::json cases = fixture("smollm.json");
  ASSERT_GT(cases["encode"].size(), 300u);
  for (const auto& row : cases["encode"]) {
    EXPECT_EQ(t.encode(row[0].get<std::string>()), row[1].get<Tokens>()) << row[0];
  }
  for (const auto& row : cases["decode"]) {
    EXPECT_EQ(t.decode(row[0].get<Tokens>(), true), row[1].get<std::string>()) << row[0];
  }
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(Tokenizer, RealVocabularyMatchesTheReferenceOnHardStrings) {
  FOVEA_NEEDS_MODEL();
  const Tokenizer t(TokenizerSpec::from_gguf(Gguf::open(test::model_path())));
  const nlohmann::json cases = fixture("hard.json");
  ASSERT_EQ(cases["encode"].size(), 2000u);
  for (const auto& row : cases["encode"]) {
    EXPECT_EQ(t.encode(row[0].get<std::string>()), row[1].get<Tokens>()) << row[0];
  }
  ASSERT_EQ(cases["bytes"].size(), 200u);
  for (const auto& row : cases["bytes"]) {
    EXPECT_EQ(t.encode(bytes_of_hex(row[0])), row[1].get<Tokens>()) << row[0];
  }
}

}  // namespace
}  // namespace fovea::app
