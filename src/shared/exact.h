// SPDX-License-Identifier: Apache-2.0
// Products, sums, quotients and roots that are rounded once each, where bits must agree between backends: device
// compilers otherwise contract a * b + c into one rounding. The host's build forbids that by an option. Freestanding.
#pragma once

namespace fovea {

#if defined(__CUDACC_RTC__)
inline float mul_rn(float a, float b) {
  return __fmul_rn(a, b);
}
inline float add_rn(float a, float b) {
  return __fadd_rn(a, b);
}
inline float sub_rn(float a, float b) {
  return __fsub_rn(a, b);
}
inline float div_rn(float a, float b) {
  return __fdiv_rn(a, b);
}
inline float sqrt_rn(float x) {
  return __fsqrt_rn(x);
}
inline double mul_rn(double a, double b) {
  return __dmul_rn(a, b);
}
inline double add_rn(double a, double b) {
  return __dadd_rn(a, b);
}
inline double sub_rn(double a, double b) {
  return __dsub_rn(a, b);
}
#else
inline float mul_rn(float a, float b) {
  return a * b;
}
inline float add_rn(float a, float b) {
  return a + b;
}
inline float sub_rn(float a, float b) {
  return a - b;
}
inline float div_rn(float a, float b) {
  return a / b;
}
inline float sqrt_rn(float x) {
  return __builtin_sqrtf(x);
}
inline double mul_rn(double a, double b) {
  return a * b;
}
inline double add_rn(double a, double b) {
  return a + b;
}
inline double sub_rn(double a, double b) {
  return a - b;
}
#endif

}  // namespace fovea
