// SPDX-License-Identifier: Apache-2.0
// The code with a residual of one bit (Zandieh, Daliri, Hadian, Mirrokni: "TurboQuant", arXiv 2504.19874, algorithm 2):
// b - 1 bits of each element for the vector, one for the sign of a random projection of what they leave. Kept to show
// what it costs beside b bits without it.
#pragma once

#include <vector>

namespace fovea::oracle {

struct QjlCode {
  std::vector<double> coarse;  // of b - 1 bits, decoded
  std::vector<double> signs;   // of projection * residual
  double residual_norm = 0;
};

// projection: d x d independent normals, row by row. bits: 2 to 4, with that of the residual.
QjlCode qjl_encode(int bits, const std::vector<double>& rotation, const std::vector<double>& projection,
                   const std::vector<double>& x);

// The estimate of the product of y with x; unbiased over projections.
double qjl_product(const QjlCode& code, const std::vector<double>& projection, const std::vector<double>& y);

}  // namespace fovea::oracle
