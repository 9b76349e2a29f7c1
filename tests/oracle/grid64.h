// SPDX-License-Identifier: Apache-2.0
// The formats of quantised K and V, written down once more for the tests, in fp64 and with dense matrices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::oracle {

// R, row by row: an orthogonal d x d matrix, Paley's Hadamard matrices and the hash of the signs worked out anew.
std::vector<double> rotation(int d);

// The levels of "i8", "q6", .. "q2", by code.
std::vector<double> levels(const std::string& grid);

struct Encoded {
  std::vector<int> codes;
  double scale = 0;
};
// The rule of docs/kv-formats.md. x: not rotated.
Encoded encode(const std::string& grid, const std::vector<double>& rotation, const std::vector<double>& x);
std::vector<double> decode(const std::string& grid, const std::vector<double>& rotation, const Encoded& e);

}  // namespace fovea::oracle
