// SPDX-License-Identifier: Apache-2.0
#include "plan/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea {

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// The pair whose wave turns `rotations` times within the original context, as a real number.
double yarn_pair(const RotarySpec& s, double rotations) {
  const double length = static_cast<double>(s.original_max_position);
  return s.rotary_dim * std::log(length / (rotations * kTwoPi)) / (2 * std::log(s.theta));
}

// Pairs that turn often keep their frequency, slow ones are interpolated, those between are blended.
void scale_yarn(const RotarySpec& s, RotaryTable& t) {
  double low = yarn_pair(s, s.beta_fast), high = yarn_pair(s, s.beta_slow);
  if (s.yarn_truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, s.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  for (int i = 0; i < s.rotary_dim / 2; ++i) {
    const double slow = std::clamp((i - low) / (high - low), 0.0, 1.0);
    t.inv_freq[i] *= (1 - slow) + slow / s.factor;
  }
  t.amplitude = s.attention_factor != 0 ? s.attention_factor : 0.1 * std::log(s.factor) + 1;
}

void scale_llama3(const RotarySpec& s, RotaryTable& t) {
  const double length = static_cast<double>(s.original_max_position);
  for (int i = 0; i < s.rotary_dim / 2; ++i) {
    const double rotations = length * t.inv_freq[i] / kTwoPi;
    const double keep = (rotations - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    const double smooth = std::clamp(keep, 0.0, 1.0);
    t.inv_freq[i] *= smooth + (1 - smooth) / s.factor;
  }
}

void scale_longrope(const RotarySpec& s, RotaryTable& t) {
  for (int i = 0; i < s.rotary_dim / 2; ++i) t.inv_freq[i] /= static_cast<double>(s.pair_factor[i]);
  const double length = static_cast<double>(s.original_max_position);
  t.amplitude = s.attention_factor != 0 ? s.attention_factor : std::sqrt(1 + std::log(s.factor) / std::log(length));
}

constexpr const char* kScalingNames[] = {"none", "linear", "ntk", "yarn", "llama3", "longrope"};

}  // namespace

Status make_rotary_table(const RotarySpec& s, RotaryTable& t) {
  t = {};
  const int pairs = s.rotary_dim / 2;
  for (int i = 0; i < pairs; ++i) t.position_row[i] = static_cast<u8_t>(position_row(s, i));
  if (s.given_tables) return {};
  const double base =
      s.scaling == RopeScaling::ntk ? s.theta * std::pow(s.factor, s.rotary_dim / (s.rotary_dim - 2.0)) : s.theta;
  for (int i = 0; i < pairs; ++i) t.inv_freq[i] = std::pow(base, -2.0 * i / s.rotary_dim);
  if (s.scaling == RopeScaling::linear) {
    for (int i = 0; i < pairs; ++i) t.inv_freq[i] /= s.factor;
  }
  if (s.scaling == RopeScaling::yarn) scale_yarn(s, t);
  if (s.scaling == RopeScaling::llama3) scale_llama3(s, t);
  if (s.scaling == RopeScaling::longrope) scale_longrope(s, t);
  for (int i = 0; i < pairs; ++i) {
    if (t.inv_freq[i] <= 0x1p16) continue;
    return invalid_value("frequency of pair " + std::to_string(i), format_float(t.inv_freq[i]),
                         "must be at most 65536 radians per position");
  }
  return {};
}

std::string describe(const RotarySpec& s) {
  std::string text = s.style == RopeStyle::neox ? "NeoX" : "GPT-J";
  text += " over " + std::to_string(s.rotary_dim) + " dims, ";
  if (s.given_tables) {
    text += "given tables";
  } else if (s.scaling == RopeScaling::none) {
    text += "angles in f64";
  } else {
    text += "angles in f64, scaling " + std::string(kScalingNames[static_cast<int>(s.scaling)]);
  }
  if (s.section[0] > 0 || s.position_rows > 1) {
    text += s.interleaved ? ", interleaved M-RoPE of " : ", M-RoPE of ";
    text += std::to_string(s.position_rows) + " rows";
  }
  return text;
}

Status make_plan(const RopeSpec& spec, const Caps& caps, RopePlan& plan) {
  if (caps.device_type != FOVEA_CPU) return unsupported("rope: no kernel for this device");
  plan.spec = spec;
  plan.kernel = "cpu_tokens";
  return make_rotary_table(spec.rotary, plan.table);
}

std::string explain(const RopePlan& plan) {
  const RopeSpec& s = plan.spec;
  return std::string("rope: ") + plan.kernel + ", " + describe(s.rotary) +
         "; one task per block of tokens, cos and sin once per token, up to " + std::to_string(s.tokens) +
         " tokens of " + std::to_string(s.heads) + " x " + std::to_string(s.d);
}

}  // namespace fovea
