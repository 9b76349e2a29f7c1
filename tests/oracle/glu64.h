// SPDX-License-Identifier: Apache-2.0
// Gated linear units of one element in fp64, each from its formula, arranged so that nothing cancels.
#pragma once

namespace fovea::oracle {

enum class Glu { silu, gelu_tanh, gelu_erf, clamped_swiglu };

double activation64(Glu kind, double gate, double alpha = 1.702);
double glu64(Glu kind, double gate, double up, double alpha = 1.702, double limit = 7.0);

}  // namespace fovea::oracle
