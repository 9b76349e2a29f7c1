// SPDX-License-Identifier: Apache-2.0
// The kernels of the catalogue's rows, run on the host. `args` points to the kernel's block of parameters.
#pragma once

#include "emulated/simt.h"

namespace emulated {

void kv_append_8_1(const void* args, simt::Dim grid, simt::Dim block);
void kv_append_8_2(const void* args, simt::Dim grid, simt::Dim block);
void kv_append_1_16(const void* args, simt::Dim grid, simt::Dim block);
void merge_states_32(const void* args, simt::Dim grid, simt::Dim block);
void merge_states_64(const void* args, simt::Dim grid, simt::Dim block);

}  // namespace emulated
