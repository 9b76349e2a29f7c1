// SPDX-License-Identifier: Apache-2.0
// Products of a warp over fp8, SM89 on: d += a b with f32 registers. Fragments are those of 8-bit values in
// mma_sm80.cuh (PTX ISA 9.7.14.5.10). PTX ISA 9.7.14.5.14 (mma).
//
// One instruction on SM89 and SM120. For SM90, SM100 and SM110 the compiler makes two products of f16 of it and twelve
// conversions: as exact as f16, and slower.
#pragma once

namespace fovea::ptx {

__device__ inline void mma_m16n8k32_e4m3(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_m16n8k32_e5m2(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace fovea::ptx
