// SPDX-License-Identifier: Apache-2.0
#include "support/check.h"

#include <cctype>
#include <cmath>
#include <sstream>

#include "support/tensors.h"

namespace fovea::test {
namespace {

// Error in units of the bound: above 1 is a failure.
double excess(double got, double want, double bound) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : HUGE_VAL;
  if (got == want) return 0;
  if (std::isinf(want) || std::isinf(got)) return HUGE_VAL;
  const double error = std::fabs(got - want);
  return error <= bound ? (bound > 0 ? error / bound : 0) : (bound > 0 ? error / bound : HUGE_VAL);
}

}  // namespace

::testing::AssertionResult within(const fovea_tensor& got, const std::vector<double>& want,
                                  const std::vector<double>& bound, double got_scale) {
  const std::vector<double> values = values_of(got);
  if (values.size() != want.size() || bound.size() != want.size()) {
    return ::testing::AssertionFailure() << values.size() << " elements, " << want.size() << " wanted, " << bound.size()
                                         << " bounds";
  }
  size_t worst = 0;
  size_t failures = 0;
  double worst_excess = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double e = excess(values[i] * got_scale, want[i], bound[i]);
    if (e > 1) ++failures;
    if (e > worst_excess) {
      worst_excess = e;
      worst = i;
    }
  }
  if (!failures) return ::testing::AssertionSuccess();
  std::ostringstream text;
  text.precision(9);
  text << failures << " of " << want.size() << " elements out of bound; worst "
       << index_text(got, static_cast<int64_t>(worst)) << ": got " << values[worst] * got_scale << ", want "
       << want[worst] << ", bound " << bound[worst];
  return ::testing::AssertionFailure() << text.str();
}

::testing::AssertionResult within(const fovea_tensor& got, const std::vector<double>& want, double bound) {
  return within(got, want, std::vector<double>(want.size(), bound));
}

::testing::AssertionResult near(const fovea_tensor& got, const std::vector<double>& want, double absolute,
                                double relative) {
  std::vector<double> bound(want.size());
  for (size_t i = 0; i < want.size(); ++i) bound[i] = absolute + relative * std::fabs(want[i]);
  return within(got, want, bound);
}

double distance(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& bound) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, excess(a[i], b[i], bound[i]));
  return most;
}

::testing::AssertionResult names(const std::string& message, const std::string& word) {
  const auto inside = [&](size_t i) { return i < message.size() && (std::isalnum(message[i]) || message[i] == '_'); };
  for (size_t at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) {
    if ((at == 0 || !inside(at - 1)) && !inside(at + word.size())) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "'" << word << "' is not in: " << message;
}

}  // namespace fovea::test
