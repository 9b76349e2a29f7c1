// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/kernels/ptx/ldmatrix.cuh"
#include "backend/cuda/kernels/ptx/mma_sm80.cuh"
