// SPDX-License-Identifier: Apache-2.0
// What the library takes, asked of the library itself, as Markdown tables.
#pragma once

#include <string>

#include "fovea/fovea.hpp"

namespace fovea::bench {

// A heading and a table for each part: one row per operation; then attention and matmul in detail.
std::string support_tables(const Context& context);

}  // namespace fovea::bench
