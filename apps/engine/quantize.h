// SPDX-License-Identifier: Apache-2.0
// Weights in another type than the file has them in: quantised while a model is loaded.
#pragma once

#include <cstddef>
#include <fovea/fovea.hpp>
#include <string>
#include <vector>

#include "model.h"

namespace fovea::app {

std::string quantized_type_names();                     // "e4m3, q4_1, q8_0"
int32_t parse_quantized_type(const std::string& name);  // of `--isq`; another name: Error with the allowed ones
// `type`, or where rows are no whole blocks of it the type of smaller blocks that takes its place; Error where they are
// none of that either.
int32_t type_for_rows(int32_t type, int64_t columns);

// A matrix and the memory it lies in.
struct Quantized {
  Matrix matrix;
  std::vector<std::byte> memory;
};
// The matrix [rows, columns], of any type of weights, in e4m3 with one scale of each row or in a block type; `columns`
// are whole blocks of it. Errors say what it has, without its name.
Quantized quantized(const Context& context, const Matrix& from, int32_t type);

}  // namespace fovea::app
