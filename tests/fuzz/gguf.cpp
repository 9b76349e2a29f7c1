// SPDX-License-Identifier: Apache-2.0
// A file from a stranger as `fovea generate` reads it: container, model, tokenizer, chat template, and a step of the
// engine where everything fits. Whatever the bytes are, the result is an answer or an Error of one printable line.
#include "engine/gguf.h"

#include <cstring>
#include <string>

#include "engine/chat_template.h"
#include "engine/engine.h"
#include "fuzz/target.h"

namespace fovea::fuzz {
namespace {

using namespace fovea::app;

template <class Body>
bool attempt(const Body& body) {
  std::string message;
  try {
    body();
    return true;
  } catch (const app::Error& e) {
    message = e.what();
  } catch (const fovea::Error& e) {
    message = e.what();
  }
  demand(!message.empty(), "an error has a message");
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    demand(byte >= 0x20 && byte != 0x7f, "a message has no control characters:", message.c_str());
  }
  return false;
}

// Every view that the reader gave out, at both ends.
void touch(const Gguf& file) {
  const auto read = [](const void* data, uint64_t bytes) {
    if (bytes == 0) return;
    const auto* first = static_cast<const volatile uint8_t*>(data);
    static_cast<void>(first[0]);
    static_cast<void>(first[bytes - 1]);
  };
  for (const GgufTensor& t : file.tensors()) {
    read(t.name.data(), t.name.size());
    read(t.data, t.bytes);
    demand(file.find_tensor(t.name) == &t, "a tensor is found by its name");
  }
  for (const auto& [key, value] : file.metadata()) {
    read(key.data(), key.size());
    if (const auto* text = std::get_if<std::string_view>(&value.value)) read(text->data(), text->size());
    attempt([&, k = key] { file.get_uint(k); });
    attempt([&, k = key] { file.get_float(k); });
    attempt([&, k = key] { file.get_bool(k); });
    attempt([&, k = key] { file.get_string(k); });
    attempt([&, k = key] { file.get_ints(k); });
    attempt([&, k = key] {
      for (const std::string_view text : file.get_strings(k)) read(text.data(), text.size());
    });
  }
}

void run(Bytes data) {
  static const Context context({.threads = 1});
  const std::span bytes(reinterpret_cast<const std::byte*>(data.data()), data.size());
  const auto open = [&] { return Gguf::parse(bytes, "f.gguf"); };
  if (!attempt([&] { touch(open()); })) return;
  attempt([&] {
    const ChatMessage message{"user", "hello"};
    ChatTemplate::from_gguf(open()).render({&message, 1});
  });
  attempt([&] { Tokenizer(TokenizerSpec::from_gguf(open())).encode("hello <|im_end|>\n"); });
  attempt([&] {
    const Model model(open());
    const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
    Engine engine(context, model, tokenizer, {.page_size = 2, .chunk = 2});
    const Request request{.prompt = {0, 0, 0}, .max_new_tokens = 2, .sampling = {}};
    engine.run({&request, 1});
  });
}

// The places of a file that hold numbers, found without any check but that of its end.
class Numbers {
 public:
  explicit Numbers(Bytes data) : data_(data) {
    at_ = 8;
    const uint64_t tensors = number(8), pairs = number(8);
    for (uint64_t i = 0; i < pairs && at_ < data_.size(); ++i) pair();
    for (uint64_t i = 0; i < tensors && at_ < data_.size(); ++i) tensor();
  }
  struct Place {
    size_t at;
    size_t bytes;
  };
  const std::vector<Place>& places() const { return places_; }

 private:
  uint64_t number(size_t bytes) {
    if (at_ + bytes > data_.size()) {
      at_ = data_.size();
      return 0;
    }
    uint64_t value = 0;
    std::memcpy(&value, data_.data() + at_, bytes);
    places_.push_back({at_, bytes});
    at_ += bytes;
    return value;
  }
  void skip(uint64_t bytes) { at_ = bytes < data_.size() - at_ ? at_ + bytes : data_.size(); }
  void value(uint64_t type, int depth) {
    static constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) return skip(number(8));
    if (type != 9) return static_cast<void>(number(type < std::size(kBytes) ? kBytes[type] : 1));
    const uint64_t element = number(4), count = number(8);
    for (uint64_t i = 0; i < count && at_ < data_.size() && depth < 4; ++i) value(element, depth + 1);
  }
  void pair() {
    skip(number(8));
    value(number(4), 0);
  }
  void tensor() {
    skip(number(8));
    const uint64_t dims = number(4);
    for (uint64_t i = 0; i < dims && i < 5; ++i) number(8);
    number(4);
    number(8);
  }

  Bytes data_;
  size_t at_ = 0;
  std::vector<Place> places_;
};

size_t mutate(uint8_t* data, size_t size, size_t, uint64_t seed) {
  if (size < 24) return size;
  const Numbers numbers({data, size});
  if (numbers.places().empty()) return size;
  const auto next = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33; };
  const Numbers::Place place = numbers.places()[next() % numbers.places().size()];
  uint64_t value = 0;
  std::memcpy(&value, data + place.at, place.bytes);
  switch (next() % 6) {
    case 0:
      value += next() % 9 - 4;
      break;
    case 1:
      value = uint64_t{1} << next() % 64;
      break;
    case 2:
      value = ~uint64_t{0} << next() % 64;
      break;
    case 3:
      value = next() % 40;
      break;
    case 4:
      value *= next() % 2 != 0 ? 2 : 32;
      break;
    default:
      value = size - next() % 64;
  }
  std::memcpy(data + place.at, &value, place.bytes);
  return size;
}

const Register registered({"gguf", run, mutate});

}  // namespace
}  // namespace fovea::fuzz
