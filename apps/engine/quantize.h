// SPDX-License-Identifier: Apache-2.0
// Weights in another type than the file has them in: quantised while a model is loaded.
#pragma once

#include <cstddef>
#include <fovea/fovea.hpp>
#include <string>
#include <vector>

namespace fovea::app {

std::string quantized_type_names();                     // "q4_1, q8_0"
int32_t parse_quantized_type(const std::string& name);  // of `--isq`; another name: Error with the allowed ones
// `type`, or where rows are no whole blocks of it the type of smaller blocks that takes its place; Error where they are
// none of that either.
int32_t type_for_rows(int32_t type, int64_t columns);

// The matrix [rows, columns], of any type of weights, in a block type; `columns` are whole blocks of it. Errors say
// what it has, without its name.
std::vector<std::byte> quantized(const Context& context, const Tensor& matrix, int32_t type);

}  // namespace fovea::app
