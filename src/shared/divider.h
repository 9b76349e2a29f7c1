// SPDX-License-Identifier: Apache-2.0
// Division by a number that is known before: a product and a shift. Freestanding.
//
// With m = ceil(2^(31 + s) / d) and 2^s >= d, m d exceeds 2^(31 + s) by less than 2^s, so that floor(n m / 2^(31 + s))
// is n / d for every 0 <= n < 2^31 (Granlund and Montgomery, PLDI 1994, theorem 4.2).
#pragma once

#include "shared/convert.h"

namespace fovea {

struct Divider {
  int divisor = 1;
  unsigned multiplier = 1u << 31;
  int shift = 0;
};

constexpr Divider make_divider(int divisor) {  // at least 1
  Divider d = {.divisor = divisor, .multiplier = 0, .shift = 0};
  while (d.shift < 31 && (1 << d.shift) < divisor) ++d.shift;
  const u64_t power = u64_t{1} << (31 + d.shift);
  d.multiplier = static_cast<unsigned>((power + static_cast<u64_t>(divisor) - 1) / static_cast<u64_t>(divisor));
  return d;
}

inline int divide(int n, const Divider& by) {  // n not negative
  return static_cast<int>((u64_t{2} * static_cast<unsigned>(n) * by.multiplier >> 32) >> by.shift);
}

}  // namespace fovea
