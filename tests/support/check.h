// SPDX-License-Identifier: Apache-2.0
// Comparison element by element, each with its own bound; the message names the worst element.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::test {

// |got[i] * got_scale - want[i]| <= bound[i] for every element in row-major order. NaN is equal to NaN alone, an
// infinity to itself alone.
::testing::AssertionResult within(const fovea_tensor& got, const std::vector<double>& want,
                                  const std::vector<double>& bound, double got_scale = 1.0);
// One bound for all.
::testing::AssertionResult within(const fovea_tensor& got, const std::vector<double>& want, double bound);
// Absolute plus relative to the wanted value.
::testing::AssertionResult near(const fovea_tensor& got, const std::vector<double>& want, double absolute,
                                double relative);
// The largest |a - b| / bound; infinite where one is NaN and the other not. Tells whether an option changed something.
double distance(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& bound);

// Does the message hold `word` as a whole: an argument's name, a value?
::testing::AssertionResult names(const std::string& message, const std::string& word);

}  // namespace fovea::test
