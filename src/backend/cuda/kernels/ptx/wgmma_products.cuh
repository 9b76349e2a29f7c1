// SPDX-License-Identifier: Apache-2.0
// The products of wgmma.cuh, PTX ISA 9.7.15.5 (wgmma.mma_async). N is twice the length of d: 8, 16, 32, 64, 96, 128,
// 192 or 256. With rows of queries as M, N is a tile of keys in Q K^T and the head dim in P V: 64 to 256, and twice 256
// for 512. 8, 16 and 32 are for the exchange of roles in decoding, K Q^T with few queries as N. Another N is one more
// row of the table below and its two lists.
//
//   wgmma_<type>_ss<ta, tb>(d, A, B, accumulate)    both by descriptor; ta, tb: transpose, 0 or 1 (e4m3 has neither)
//   wgmma_<type>_rs<tb>(d, a, B, accumulate)        A in registers
// accumulate: 0 is d = a b, anything else d += a b.
#pragma once

#include "backend/cuda/kernels/ptx/wgmma.cuh"

// Operands 0 to n - 1 of the assembler text, and what they are. Macros: an asm statement takes literals only.
#define FOVEA_TEXT_4 "%0, %1, %2, %3"
#define FOVEA_TEXT_8 \
  FOVEA_TEXT_4       \
  ", "               \
  "%4, %5, %6, %7"
#define FOVEA_TEXT_16 \
  FOVEA_TEXT_8        \
  ", "                \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define FOVEA_TEXT_32 \
  FOVEA_TEXT_16       \
  ", "                \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FOVEA_TEXT_48 \
  FOVEA_TEXT_32       \
  ", "                \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FOVEA_TEXT_64 \
  FOVEA_TEXT_48       \
  ", "                \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FOVEA_TEXT_96                                                                \
  FOVEA_TEXT_64                                                                      \
  ", "                                                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FOVEA_TEXT_128                                                                           \
  FOVEA_TEXT_96                                                                                  \
  ", "                                                                                           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FOVEA_LIST_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOVEA_LIST_8(i) FOVEA_LIST_4(i), FOVEA_LIST_4(i + 4)
#define FOVEA_LIST_16(i) FOVEA_LIST_8(i), FOVEA_LIST_8(i + 8)
#define FOVEA_LIST_32(i) FOVEA_LIST_16(i), FOVEA_LIST_16(i + 16)
#define FOVEA_LIST_48(i) FOVEA_LIST_32(i), FOVEA_LIST_16(i + 32)
#define FOVEA_LIST_64(i) FOVEA_LIST_32(i), FOVEA_LIST_32(i + 32)
#define FOVEA_LIST_96(i) FOVEA_LIST_64(i), FOVEA_LIST_32(i + 64)
#define FOVEA_LIST_128(i) FOVEA_LIST_64(i), FOVEA_LIST_64(i + 64)

// One product: n, its registers of d (also the number of the first operand after them), the numbers of the other six.
#define FOVEA_BEGIN(last) "{\n.reg .pred p;\nsetp.ne.b32 p, %" #last ", 0;\nwgmma.mma_async.sync.aligned."
#define FOVEA_WGMMA_16BIT(type, n, r, p1, p2, p3, p4, p5, p6)                                              \
  template <int ta, int tb>                                                                                \
  __device__ inline void wgmma_##type##_ss(float(&d)[r], u64_t a, u64_t b, int accumulate) {               \
    asm volatile(FOVEA_BEGIN(p2) "m64n" #n "k16.f32." #type "." #type " {" FOVEA_TEXT_##r                  \
                 "}, %" #r ", %" #p1 ", p, 1, 1, %" #p3 ", %" #p4 ";\n}"                                   \
                 : FOVEA_LIST_##r(0)                                                                       \
                 : "l"(a), "l"(b), "r"(accumulate), "n"(ta), "n"(tb));                                     \
  }                                                                                                        \
  template <int tb>                                                                                        \
  __device__ inline void wgmma_##type##_rs(float(&d)[r], const unsigned(&a)[4], u64_t b, int accumulate) { \
    asm volatile(FOVEA_BEGIN(p5) "m64n" #n "k16.f32." #type "." #type " {" FOVEA_TEXT_##r                  \
                 "}, {%" #r ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4 ", p, 1, 1, %" #p6 ";\n}"             \
                 : FOVEA_LIST_##r(0)                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(tb));          \
  }
#define FOVEA_WGMMA(n, r, p1, p2, p3, p4, p5, p6)                                                                    \
  FOVEA_WGMMA_16BIT(f16, n, r, p1, p2, p3, p4, p5, p6)                                                               \
  FOVEA_WGMMA_16BIT(bf16, n, r, p1, p2, p3, p4, p5, p6)                                                              \
  __device__ inline void wgmma_e4m3_ss(float(&d)[r], u64_t a, u64_t b, int accumulate) {                             \
    asm volatile(FOVEA_BEGIN(p2) "m64n" #n "k32.f32.e4m3.e4m3 {" FOVEA_TEXT_##r "}, %" #r ", %" #p1 ", p, 1, 1;\n}"  \
                 : FOVEA_LIST_##r(0)                                                                                 \
                 : "l"(a), "l"(b), "r"(accumulate));                                                                 \
  }                                                                                                                  \
  __device__ inline void wgmma_e4m3_rs(float(&d)[r], const unsigned(&a)[4], u64_t b, int accumulate) {               \
    asm volatile(FOVEA_BEGIN(p5) "m64n" #n "k32.f32.e4m3.e4m3 {" FOVEA_TEXT_##r "}, {%" #r ", %" #p1 ", %" #p2       \
                                                                                ", %" #p3 "}, %" #p4 ", p, 1, 1;\n}" \
                 : FOVEA_LIST_##r(0)                                                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                             \
  }

namespace fovea::ptx {

FOVEA_WGMMA(8, 4, 5, 6, 7, 8, 9, 10)
FOVEA_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
FOVEA_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
FOVEA_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
FOVEA_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
FOVEA_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
FOVEA_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
FOVEA_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)

}  // namespace fovea::ptx

#undef FOVEA_WGMMA
#undef FOVEA_WGMMA_16BIT
#undef FOVEA_BEGIN
#undef FOVEA_TEXT_4
#undef FOVEA_LIST_4
#undef FOVEA_TEXT_8
#undef FOVEA_LIST_8
#undef FOVEA_TEXT_16
#undef FOVEA_LIST_16
#undef FOVEA_TEXT_32
#undef FOVEA_LIST_32
#undef FOVEA_TEXT_48
#undef FOVEA_LIST_48
#undef FOVEA_TEXT_64
#undef FOVEA_LIST_64
#undef FOVEA_TEXT_96
#undef FOVEA_LIST_96
#undef FOVEA_TEXT_128
#undef FOVEA_LIST_128
