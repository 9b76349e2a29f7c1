// SPDX-License-Identifier: Apache-2.0
// UTF-8 as the engine treats it: text that comes in may be anything, text that goes out is always valid.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea::app {

enum class Utf8 { kValid, kInvalid, kIncomplete };

// Looks at the character that starts at text[at]. *length is the bytes it takes: of the character, of the longest
// invalid part (Unicode 3.9, "maximal subpart"), or, when text ends inside a character, of what is there of it.
Utf8 utf8_step(std::string_view text, size_t at, size_t* length);

// Appends text to out with each maximal invalid part replaced by U+FFFD. Returns how many bytes were consumed: all, or
// with keep_incomplete_tail all but an unfinished character at the end.
size_t append_valid_utf8(std::string_view text, bool keep_incomplete_tail, std::string* out);

std::string valid_utf8(std::string_view text);

}  // namespace fovea::app
