// SPDX-License-Identifier: Apache-2.0
// What a kernel of SM80 needs of matrices: its products and the loads of their operands.
#pragma once

#include "backend/cuda/kernels/ptx/ldmatrix.cuh"
#include "backend/cuda/kernels/ptx/mma_sm80.cuh"
