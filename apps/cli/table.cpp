// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <algorithm>
#include <cstdio>

namespace fovea::app {

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string megabytes(int64_t bytes) {
  return fixed(static_cast<double>(bytes) / 1e6, 1) + " MB";
}

}  // namespace fovea::app
