// SPDX-License-Identifier: Apache-2.0
#include "shared/divider.h"

#include <gtest/gtest.h>

#include <climits>
#include <random>
#include <vector>

namespace fovea {
namespace {

TEST(Divider, EqualsDivision) {
  std::mt19937 random(1);
  std::vector<int> divisors = {INT_MAX, INT_MAX - 1, (1 << 30) + 1, 1 << 30, (1 << 30) - 1, 65537, 65536, 65535};
  for (int d = 1; d <= 300; ++d) divisors.push_back(d);
  for (int i = 0; i < 200; ++i) divisors.push_back(static_cast<int>(random() >> (1 + i % 30)) + 1 - (i % 30 == 0));
  for (const int d : divisors) {
    if (d < 1) continue;
    const Divider by = make_divider(d);
    const auto check = [&](long long n) {
      if (n < 0 || n > INT_MAX) return;
      ASSERT_EQ(divide(static_cast<int>(n), by), n / d) << n << " / " << d;
    };
    for (long long n = 0; n < 100; ++n) check(n), check(INT_MAX - n);
    for (int i = 0; i < 500; ++i) {
      const long long multiple = static_cast<long long>(random() >> 1) / d * d;
      check(multiple - 1), check(multiple), check(multiple + 1), check(static_cast<long long>(random() >> 1));
    }
  }
}

}  // namespace
}  // namespace fovea
