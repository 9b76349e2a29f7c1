// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers and the named distributions of the tests. One environment variable, FOVEA_TEST_SEED, replays a
// run; every failing check names it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace fovea::test {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  double uniform();                            // [0, 1)
  double normal();                             // mean 0, deviation 1
  int64_t integer(int64_t low, int64_t high);  // both ends included
  bool chance(double p) { return uniform() < p; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[integer(0, static_cast<int64_t>(values.size()) - 1)];
  }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[static_cast<size_t>(integer(0, static_cast<int64_t>(values.size()) - 1))];
  }
  // `n` different integers of [0, bound), in random order.
  std::vector<int64_t> distinct(int64_t n, int64_t bound);

 private:
  uint64_t state_;
};

uint64_t test_seed();             // FOVEA_TEST_SEED, or a constant
Rng test_rng(uint64_t salt = 0);  // of the seed, the name of the running test and salt
std::string seed_note();          // "FOVEA_TEST_SEED=..." for SCOPED_TRACE
int64_t env_number(const char* name, int64_t otherwise);

// 1 in ordinary builds; smaller under sanitizers, where every instruction costs about ten: multiply case counts by it.
double effort();

enum class Values {
  normal,
  uniform,   // [-1, 1)
  peaked,    // normal times 4: logits far apart, so that each dropped option shows
  one_hot,   // one element of every vector is 1
  denormal,  // around 1e-40: zero in f16 and e4m3, subnormal in f32 and bf16
  huge,      // products with it reach logits of about -1e5
  equal,     // every element 0.5
  zero,
};
const char* name_of(Values values);
inline constexpr Values kAllValues[] = {Values::normal,   Values::uniform, Values::peaked, Values::one_hot,
                                        Values::denormal, Values::huge,    Values::equal,  Values::zero};

// `count` vectors of `dims` elements.
std::vector<double> draw(Rng& rng, Values values, int64_t count, int64_t dims);

}  // namespace fovea::test
