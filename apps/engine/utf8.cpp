// SPDX-License-Identifier: Apache-2.0
#include "utf8.h"

namespace fovea::app {

Utf8 utf8_step(std::string_view text, size_t at, size_t* length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  *length = 1;
  if (lead < 0x80) return Utf8::kValid;
  if (lead < 0xc2 || lead > 0xf4) return Utf8::kInvalid;
  const size_t wanted = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // The second byte is narrower after four leads: no overlong forms, surrogates, or codes past U+10FFFF.
  unsigned low = 0x80, high = 0xbf;
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  for (size_t i = 1; i < wanted; ++i) {
    if (at + i == text.size()) return Utf8::kIncomplete;
    if (byte(i) < low || byte(i) > high) return Utf8::kInvalid;
    *length = i + 1;
    low = 0x80;
    high = 0xbf;
  }
  return Utf8::kValid;
}

size_t append_valid_utf8(std::string_view text, bool keep_incomplete_tail, std::string* out) {
  size_t at = 0;
  while (at < text.size()) {
    size_t length = 0;
    const Utf8 state = utf8_step(text, at, &length);
    if (state == Utf8::kIncomplete && keep_incomplete_tail) break;
    if (state == Utf8::kValid) {
      out->append(text, at, length);
    } else {
      out->append("\xef\xbf\xbd");
    }
    at += length;
  }
  return at;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append_valid_utf8(text, false, &out);
  return out;
}

}  // namespace fovea::app
