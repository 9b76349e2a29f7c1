// SPDX-License-Identifier: Apache-2.0
// The C++ face: normalises one row, (3, 4) to (0.6, 0.8), and catches the error of a wrong call.
#include <cmath>
#include <cstdio>

#include "fovea/fovea.hpp"

int main() {
  float row[2] = {3, 4};
  const fovea::Context context({.threads = 1});
  const fovea::Tensor x = fovea::tensor(row, {1, 2});
  fovea::norm(context, {.kind = FOVEA_NORM_L2, .x = x, .out = x});
  std::printf("C++, fovea %s: %.3f %.3f\n", fovea_version(), row[0], row[1]);
  if (std::abs(row[0] - 0.6f) > 1e-3f || std::abs(row[1] - 0.8f) > 1e-3f) return 1;

  try {
    fovea::norm(context, {.kind = -1, .x = x, .out = x});
  } catch (const fovea::Error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
