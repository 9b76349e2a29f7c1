// SPDX-License-Identifier: Apache-2.0
#include "support/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

namespace fovea::test {

uint64_t Rng::bits() {  // splitmix64
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Rng::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1p-53;
}

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}

int64_t Rng::integer(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
}

std::vector<int64_t> Rng::distinct(int64_t n, int64_t bound) {
  std::vector<int64_t> all(static_cast<size_t>(bound));
  std::iota(all.begin(), all.end(), 0);
  for (int64_t i = 0; i < n; ++i)
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(integer(i, bound - 1))]);
  all.resize(static_cast<size_t>(n));
  return all;
}

int64_t env_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 0) : otherwise;
}

uint64_t test_seed() {
  return static_cast<uint64_t>(env_number("FOVEA_TEST_SEED", 20240229));
}

Rng test_rng(uint64_t salt) {
  uint64_t hash = test_seed() * 0x9E3779B97F4A7C15u + salt;
  if (const auto* info = ::testing::UnitTest::GetInstance()->current_test_info()) {
    for (const char* p : {info->test_suite_name(), info->name()}) {
      for (; *p; ++p) hash = (hash ^ static_cast<unsigned char>(*p)) * 0x100000001B3u;
    }
  }
  return Rng(hash);
}

std::string seed_note() {
  return "replay with FOVEA_TEST_SEED=" + std::to_string(test_seed());
}

double effort() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0.2;
#else
  return 1.0;
#endif
}

const char* name_of(Values values) {
  constexpr const char* kNames[] = {"normal", "uniform", "peaked", "one_hot", "denormal", "huge", "equal", "zero"};
  return kNames[static_cast<int>(values)];
}

std::vector<double> draw(Rng& rng, Values values, int64_t count, int64_t dims) {
  std::vector<double> x(static_cast<size_t>(count * dims), 0.0);
  switch (values) {
    case Values::normal:
      for (double& e : x) e = rng.normal();
      break;
    case Values::uniform:
      for (double& e : x) e = 2 * rng.uniform() - 1;
      break;
    case Values::peaked:
      for (double& e : x) e = 4 * rng.normal();
      break;
    case Values::one_hot:
      for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i * dims + rng.integer(0, dims - 1))] = 1;
      break;
    case Values::denormal:
      for (double& e : x) e = 1e-40 * rng.normal();
      break;
    case Values::huge:
      // The same sign for a whole vector, so that a dot product with an ordinary positive one is far from zero.
      for (double& e : x) e = -100 - 50 * rng.uniform();
      break;
    case Values::equal:
      for (double& e : x) e = 0.5;
      break;
    case Values::zero:
      break;
  }
  return x;
}

}  // namespace fovea::test
