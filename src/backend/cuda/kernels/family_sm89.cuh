// SPDX-License-Identifier: Apache-2.0
// What attention takes from SM89: all of SM80. Its products of e4m3 stand where Q and K meet as bytes (attention_tile).
#pragma once

#include "backend/cuda/kernels/family_sm80.cuh"
