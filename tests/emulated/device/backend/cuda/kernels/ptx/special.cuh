// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fovea::ptx {

inline float exp2_approx(float x) {
  const float r = exp2f(x);
  return r < 0x1p-126f ? 0.0f : r;
}
inline float log2_approx(float x) {
  return log2f(x);
}
inline float rcp_approx(float x) {
  return 1.0f / x;
}

}  // namespace fovea::ptx
