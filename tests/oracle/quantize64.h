// SPDX-License-Identifier: Apache-2.0
// How small the squared error of a block can be, by trying everything in fp64: what a quantiser is measured against.
#pragma once

#include <cstdint>

namespace fovea::oracle {

// Of one block of a block type. Types with one scale to a block and no offset: the least error there is. Types with an
// offset, and those with scales of parts: that of a fine grid of scales and offsets which are not rounded, each with
// the best line for its codes; about what the best block leaves, and where parts share an f16 hardly to be reached.
double least_error(int32_t dtype, const double* x);

}  // namespace fovea::oracle
