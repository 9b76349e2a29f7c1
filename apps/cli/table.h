// SPDX-License-Identifier: Apache-2.0
// Rows of text in aligned columns.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fovea::app {

class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;  // the last cell of a row is not padded

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string fixed(double value, int digits);  // 12.3
std::string megabytes(int64_t bytes);         // 12.3 MB

}  // namespace fovea::app
