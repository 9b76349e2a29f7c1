// SPDX-License-Identifier: Apache-2.0
#include "engine/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "apps/gguf_writer.h"

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

TEST(Gguf, RandomDamageNeverEscapes) {
  const std::string image = small().image();
  std::mt19937 rng(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = image;
    for (int i = 0; i <= round % 3; ++i) damaged[rng() % damaged.size()] = static_cast<char>(rng());
    error_of(damaged);  // an Error or none: anything else fails the test, or a sanitizer run
  }
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
               "a string of 18446744073709551615 bytes");
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
