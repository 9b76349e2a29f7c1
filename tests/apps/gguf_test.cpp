// SPDX-License-Identifier: Apache-2.0
#include "engine/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "apps/gguf_writer.h"
#include "apps/tiny_model.h"
#include "engine/model.h"
#include "engine/tokenizer.h"

namespace fovea::app {
namespace {

using test::GgufWriter;

GgufWriter small() {
  GgufWriter w;
  w.string("general.architecture", "llama").u32("a.count", 7).i32("a.negative", -3).f32("a.float", 0.5f);
  w.boolean("a.flag", true).strings("a.names", {"x", "", "yz"}).ints("a.ints", {3, -1, 2});
  w.tensor("one", {4, 2}, 0, std::string(32, 'a')).tensor("two", {64}, 3, std::string(40, 'b'));
  return w;
}

// Parses a copy of exactly the image's size, so that a sanitizer sees any read past its end.
std::string error_of(const std::string& image) {
  const std::vector<std::byte> bytes = GgufWriter::bytes(image);
  try {
    Gguf::parse(bytes, "m.gguf");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void expect_error(const std::string& image, const std::string& part) {
  const std::string message = error_of(image);
  EXPECT_NE(message.find(part), std::string::npos) << "message: " << message << "\nwanted: " << part;
  EXPECT_EQ(message.rfind("m.gguf: ", 0), 0u) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Gguf, ReadsMetadataAndTensors) {
  const std::vector<std::byte> bytes = GgufWriter::bytes(small().image());
  const Gguf file = Gguf::parse(bytes, "m.gguf");
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.get_uint("a.count"), 7u);
  EXPECT_EQ(file.get_float("a.float"), 0.5);
  EXPECT_TRUE(file.get_bool("a.flag"));
  EXPECT_EQ(file.get_strings("a.names"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file.get_ints("a.ints"), (std::vector<int64_t>{3, -1, 2}));
  EXPECT_EQ(file.get_uint("absent", 9), 9u);
  const GgufTensor& one = file.tensor("one");
  EXPECT_EQ(one.dims, (std::array<uint64_t, 4>{4, 2, 1, 1}));
  EXPECT_EQ(one.bytes, 32u);
  EXPECT_EQ(static_cast<char>(one.data[31]), 'a');
  const GgufTensor& two = file.tensor("two");
  EXPECT_EQ(two.type->name, "Q4_1");
  EXPECT_EQ(two.bytes, 40u);
  EXPECT_EQ(static_cast<char>(two.data[0]), 'b');
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string image = small().image();
  for (size_t length = 0; length < image.size(); ++length) {
    EXPECT_FALSE(error_of(image.substr(0, length)).empty()) << "length " << length << " of " << image.size();
  }
  EXPECT_EQ(error_of(image), "");
}

// Inside each field of the file. A long first pair keeps the counts believable.
TEST(Gguf, ACutNamesWhatIsMissing) {
  GgufWriter w;
  w.string("pad", std::string(200, 'p')).strings("a.names", {"first", "second"}).u32("a.count", 7);
  w.tensor("weights", {4, 2}, 0, std::string(32, 'w'));
  const std::string image = w.image();
  const size_t names = image.find("a.names") + 7, count = image.find("a.count") + 7, tensor = image.find("weights") + 7;
  const struct {
    size_t at;
    const char* missing;
  } cuts[] = {
      {0, "the file is empty"},
      {2, "file ends inside the magic number: 4 bytes wanted, 2 left"},
      {6, "file ends inside the version: 4 bytes wanted, 2 left"},
      {12, "file ends inside the number of tensors: 8 bytes wanted, 4 left"},
      {20, "the number of tensors is 1, but only 4 bytes are left"},
      {48, "the number of metadata pairs is 3, but only 24 bytes are left"},
      {names - 10, "file ends inside a metadata key: 8 bytes wanted, 5 left"},
      {names - 3, "a metadata key of 7 bytes: 4 bytes left in the file"},
      {names + 2, "file ends inside the type of metadata 'a.names': 4 bytes wanted, 2 left"},
      {names + 6, "file ends inside the type of metadata 'a.names': 4 bytes wanted, 2 left"},
      {names + 12, "file ends inside the length of metadata 'a.names': 8 bytes wanted, 4 left"},
      {names + 24, "metadata 'a.names' claims 2 array elements, but only 8 bytes are left"},
      {names + 32, "file ends inside a string of metadata 'a.names': 8 bytes wanted, 3 left"},
      {names + 40, "a string of metadata 'a.names' of 6 bytes: 3 bytes left in the file"},
      {count + 6, "file ends inside metadata 'a.count': 4 bytes wanted, 2 left"},
      {tensor - 9, "file ends inside a tensor name: 8 bytes wanted, 6 left"},
      {tensor - 2, "a tensor name of 7 bytes: 5 bytes left in the file"},
      {tensor + 2, "file ends inside the number of dimensions of tensor 'weights': 4 bytes wanted, 2 left"},
      {tensor + 14, "file ends inside the dimensions of tensor 'weights': 8 bytes wanted, 2 left"},
      {tensor + 23, "file ends inside the type of tensor 'weights': 4 bytes wanted, 3 left"},
      {tensor + 31, "file ends inside the offset of tensor 'weights': 8 bytes wanted, 7 left"},
      {tensor + 32, "tensor 'weights' of 32 bytes at offset 0 leaves the file, whose data section has 0 bytes"},
      {image.size() - 1, "tensor 'weights' of 32 bytes at offset 0 leaves the file, whose data section has 31 bytes"},
  };
  for (const auto& [at, missing] : cuts) {
    SCOPED_TRACE(at);
    expect_error(image.substr(0, at), missing);
  }
  EXPECT_EQ(error_of(image), "");
}

TEST(Gguf, RandomDamageNeverEscapes) {
  const std::string image = small().image();
  std::mt19937 rng(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = image;
    for (int i = 0; i <= round % 3; ++i) damaged[rng() % damaged.size()] = static_cast<char>(rng());
    error_of(damaged);  // an Error or none: anything else fails the test, or a sanitizer run
  }
}

TEST(Gguf, MessagesShowNoControlCharactersOfTheFile) {
  const auto message = [](const auto& read, const GgufWriter& w) -> std::string {
    const std::vector<std::byte> bytes = GgufWriter::bytes(w.image());
    try {
      read(Gguf::parse(bytes, "m.gguf"));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto model = [](Gguf file) { Model{std::move(file)}; };
  const auto tokenizer = [](const Gguf& file) { Tokenizer{TokenizerSpec::from_gguf(file)}; };
  const std::string red = "\x1b[31m\nx";
  GgufWriter w;
  EXPECT_EQ(message(model, w.string("general.architecture", red)),
            "m.gguf: architecture '?[31m?x' is not supported, only llama, qwen2");
  EXPECT_EQ(message(tokenizer, w.string("tokenizer.ggml.model", red)),
            "m.gguf: tokenizer model '?[31m?x' is not supported, only gpt2 (byte BPE)");
  GgufWriter v;
  v.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"});
  v.strings("tokenizer.ggml.merges", {"a \x1b"});
  EXPECT_EQ(message(tokenizer, v), "m.gguf: merge 0 uses '?', which is not in the vocabulary");
  EXPECT_EQ(message(tokenizer, v.string("tokenizer.ggml.pre", red))
                .find("m.gguf: unknown pre-tokenizer '?[31m?x' in tokenizer.ggml.pre"),
            0u);
}

TEST(Gguf, TypedAccessNamesTheKey) {
  const std::vector<std::byte> bytes = GgufWriter::bytes(small().image());
  const Gguf file = Gguf::parse(bytes, "m.gguf");
  const auto message = [&](auto access) -> std::string {
    try {
      access();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { file.get_uint("a.none"); }), "m.gguf: metadata 'a.none' is missing");
  EXPECT_EQ(message([&] { file.get_uint("a.flag"); }), "m.gguf: metadata 'a.flag' is bool, wanted an integer");
  EXPECT_EQ(message([&] { file.get_uint("a.negative"); }), "m.gguf: metadata 'a.negative' is -3, wanted 0 or more");
  EXPECT_EQ(message([&] { file.get_string("a.names"); }),
            "m.gguf: metadata 'a.names' is array of string, wanted a string");
  EXPECT_EQ(message([&] { file.get_ints("a.names"); }),
            "m.gguf: metadata 'a.names' is array of string, wanted array of integers");
  EXPECT_EQ(message([&] { file.tensor("three"); }), "m.gguf: tensor 'three' is missing");
}

TEST(Gguf, HeaderFaults) {
  expect_error("", "the file is empty");
  expect_error("GGML" + small().image().substr(4), "wrong magic number");
  GgufWriter w = small();
  w.version = 2;
  expect_error(w.image(), "version 2; only version 3 is read");
  w.version = 3u << 24;
  expect_error(w.image(), "big-endian");
  std::string image = small().image();
  image.replace(8, 8, GgufWriter::raw<uint64_t>(1ull << 60));
  expect_error(image, "the number of tensors is 1152921504606846976");
  image = small().image();
  image.replace(16, 8, GgufWriter::raw<uint64_t>(1ull << 40));
  expect_error(image, "the number of metadata pairs is 1099511627776");
}

TEST(Gguf, MetadataFaults) {
  expect_error(small().u32("a.count", 1).image(), "metadata key 'a.count' occurs twice");
  expect_error(small().add("bad", GgufWriter::raw<uint32_t>(13)).image(), "unknown type 13");
  expect_error(small().add("bad", GgufWriter::raw<uint32_t>(7) + '\2').image(), "bool of value 2");
  expect_error(small().add("bad", GgufWriter::raw<uint32_t>(8) + GgufWriter::raw<uint64_t>(~0ull)).image(),
               "the string of metadata 'bad' of 18446744073709551615 bytes: 173 bytes left in the file (");
  const std::string many =
      GgufWriter::raw<uint32_t>(9) + GgufWriter::raw<uint32_t>(8) + GgufWriter::raw<uint64_t>(1ull << 61);
  expect_error(small().add("bad", many).image(), "claims 2305843009213693952 array elements");
  std::string deep = GgufWriter::raw<uint32_t>(9);
  for (int i = 0; i < 6; ++i) deep += GgufWriter::raw<uint32_t>(9) + GgufWriter::raw<uint64_t>(1);
  expect_error(small().add("deep", deep).image(), "nests arrays deeper than 4");
  expect_error(small().u32("general.alignment", 24).image(), "general.alignment is 24");
  expect_error(small().u32("general.alignment", 0).image(), "general.alignment is 0");
  expect_error(small().u32("split.count", 3).u32("split.no", 1).image(), "part 2 of a model split into 3 files");
}

TEST(Gguf, NestedArraysOfLegalDepthAreAccepted) {
  const std::string inner = GgufWriter::raw<uint32_t>(0) + GgufWriter::raw<uint64_t>(2) + "ab";
  const std::string nested =
      GgufWriter::raw<uint32_t>(9) + GgufWriter::raw<uint32_t>(9) + GgufWriter::raw<uint64_t>(2) + inner + inner;
  EXPECT_EQ(error_of(small().add("nested", nested).image()), "");
}

TEST(Gguf, TensorFaults) {
  const std::string data(32, 'c');
  expect_error(small().tensor("one", {8}, 0, data).image(), "tensor 'one' occurs twice");
  expect_error(small().tensor("x", {}, 0, "").image(), "has 0 dimensions");
  expect_error(small().tensor("x", {1, 1, 1, 1, 1}, 0, data).image(), "has 5 dimensions");
  expect_error(small().tensor("x", {4, 0}, 0, "").image(), "has a dimension of 0");
  expect_error(small().tensor("x", {1ull << 40, 1ull << 40}, 0, data).image(), "product of its dimensions overflows");
  expect_error(small().tensor("x", {1ull << 62}, 0, data).image(), "size in bytes overflows");
  expect_error(small().tensor("x", {33}, 8, data).image(), "rows of 33 elements, Q8_0 needs a multiple of 32");
  expect_error(small().tensor("x", {8}, 99, data).image(), "tensor 'x' has unknown type 99");
  expect_error(small().tensor("x", {9}, 0, data).image(), "leaves the file");
  GgufWriter w = small();
  w.place = [](size_t i, uint64_t* offset) { *offset += i == 1 ? 8 : 0; };
  expect_error(w.image(), "no multiple of the alignment 32");
  w.place = [](size_t, uint64_t* offset) { *offset = 0; };
  expect_error(w.image(), "overlap in the file");
  w.place = [](size_t i, uint64_t* offset) { *offset = i == 1 ? ~uint64_t{31} : 0; };
  expect_error(w.image(), "leaves the file");
}

TEST(Gguf, WindowsAreSizes) {
  test::TinyConfig config;
  for (const uint64_t window : {(uint64_t{1} << 30) + 1, (uint64_t{1} << 32) + 1, ~uint64_t{0}}) {
    GgufWriter w = test::TinyModel(config).writer();
    w.add("llama.attention.sliding_window", GgufWriter::raw<uint32_t>(10) + GgufWriter::raw(window));
    const std::vector<std::byte> bytes = GgufWriter::bytes(w.image());
    try {
      const Model model(Gguf::parse(bytes, "m.gguf"));
      ADD_FAILURE() << window;
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), "m.gguf: metadata 'llama.attention.sliding_window' is " +
                                           std::to_string(window) + ", allowed are 1 to 2^30");
    }
  }
}

TEST(Gguf, FileFaults) {
  const std::string dir = ::testing::TempDir() + "gguf_test_" + std::to_string(::getpid());
  std::filesystem::create_directory(dir);
  const auto message = [](const std::string& path) -> std::string {
    try {
      Gguf::open(path);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message(dir + "/none"), dir + "/none: cannot open: No such file or directory");
  EXPECT_EQ(message(dir), dir + ": not a regular file");
  std::ofstream(dir + "/empty").close();
  EXPECT_EQ(message(dir + "/empty"), dir + "/empty: the file is empty (at byte 0)");
  std::ofstream(dir + "/good", std::ios::binary) << small().image();
  EXPECT_EQ(message(dir + "/good"), "");
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace fovea::app
