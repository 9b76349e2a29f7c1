// SPDX-License-Identifier: Apache-2.0
// Special functions, one instruction each. Subnormal inputs count as zeros of their sign, and subnormal results become
// such zeros (.ftz), but for tanh. PTX ISA 9.7.3.
#pragma once

namespace fovea::ptx {

// 2^x, within 2 ulp; 2^-inf = 0. PTX ISA 9.7.3 (ex2).
__device__ inline float exp2_approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// log2(x); of 0 it is -inf. Within 2^-22 where x is in [1/2, 2], relatively elsewhere. PTX ISA 9.7.3 (lg2).
__device__ inline float log2_approx(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// 1 / x, within 1 ulp; of 0 it is the infinity of its sign. PTX ISA 9.7.3 (rcp).
__device__ inline float rcp_approx(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// tanh(x), within 2^-10.9 relatively: too coarse for a result that is stored in more than 8 bits. SM75 on.
// PTX ISA 9.7.3 (tanh).
__device__ inline float tanh_approx(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

}  // namespace fovea::ptx
