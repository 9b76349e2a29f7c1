// SPDX-License-Identifier: Apache-2.0
#include "ops/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea {

namespace {

std::string field(const char* name, const char* member) {
  return std::string(name) + "." + member;
}

constexpr unsigned bit(int scaling) {
  return 1u << scaling;
}
constexpr unsigned kLinear = bit(FOVEA_ROPE_SCALING_LINEAR), kNtk = bit(FOVEA_ROPE_SCALING_NTK),
                   kYarn = bit(FOVEA_ROPE_SCALING_YARN), kLlama3 = bit(FOVEA_ROPE_SCALING_LLAMA3),
                   kLongrope = bit(FOVEA_ROPE_SCALING_LONGROPE);

// An option that the scaling does not use must be left at its default.
Status check_unused(const char* name, const fovea_rope_config& c) {
  const fovea_rope_config d;
  const struct {
    const char* member;
    bool set;
    unsigned used_by;
  } options[] = {
      {"factor", c.factor != d.factor, kLinear | kNtk | kYarn | kLlama3 | kLongrope},
      {"original_max_position", c.original_max_position != 0, kYarn | kLlama3 | kLongrope},
      {"low_freq_factor", c.low_freq_factor != d.low_freq_factor, kLlama3},
      {"high_freq_factor", c.high_freq_factor != d.high_freq_factor, kLlama3},
      {"beta_fast", c.beta_fast != d.beta_fast, kYarn},
      {"beta_slow", c.beta_slow != d.beta_slow, kYarn},
      {"yarn_truncate", c.yarn_truncate != d.yarn_truncate, kYarn},
      {"attention_factor", c.attention_factor != 0, kYarn | kLongrope},
      {"max_position", c.max_position != 0, kLongrope},
      {"short_factor", c.short_factor != nullptr, kLongrope},
      {"long_factor", c.long_factor != nullptr, kLongrope},
  };
  for (const auto& o : options) {
    if (o.set && !(o.used_by & bit(c.scaling)))
      return invalid_value(field(name, o.member), "given", "scaling does not use it");
  }
  return {};
}

Status check_number(const char* name, const char* member, double value, double least, const char* allowed) {
  if (std::isfinite(value) && value >= least) return {};
  return invalid_value(field(name, member), format_float(value), allowed);
}

Status check_factor(const char* name, const fovea_rope_config& c) {
  const bool shrinks = bit(c.scaling) & (kYarn | kLlama3 | kLongrope);
  if (shrinks) return check_number(name, "factor", c.factor, 1, "must be finite and at least 1");
  if (std::isfinite(c.factor) && c.factor > 0) return {};
  return invalid_value(field(name, "factor"), format_float(c.factor), "must be finite and positive");
}

Status check_longrope(const char* name, const fovea_rope_config& c, RotarySpec& spec) {
  if (c.max_position < 1) {
    return invalid_value(field(name, "max_position"), c.max_position, "longrope needs it to choose its factors");
  }
  if (c.short_factor == nullptr)
    return invalid_value(field(name, "short_factor"), "null", "longrope needs its factors");
  if (c.long_factor == nullptr) return invalid_value(field(name, "long_factor"), "null", "longrope needs its factors");
  if (c.attention_factor != 0 && c.factor != 1) {
    return invalid_value(field(name, "factor"), format_float(c.factor),
                         "has no effect where attention_factor is given");
  }
  const bool far = c.max_position > c.original_max_position;
  const float* factors = far ? c.long_factor : c.short_factor;
  for (int i = 0; i < spec.rotary_dim / 2; ++i) {
    if (!(factors[i] > 0) || std::isinf(factors[i])) {
      return invalid_value(field(name, far ? "long_factor[" : "short_factor[") + std::to_string(i) + "]",
                           format_float(factors[i]), "must be finite and positive");
    }
    spec.pair_factor[i] = factors[i];
  }
  return {};
}

Status check_scaling(const char* name, const fovea_rope_config& c, RotarySpec& spec) {
  if (c.scaling < FOVEA_ROPE_SCALING_NONE || c.scaling > FOVEA_ROPE_SCALING_LONGROPE) {
    return invalid_value(field(name, "scaling"), c.scaling, "must be one of enum fovea_rope_scaling");
  }
  FOVEA_TRY(check_unused(name, c));
  FOVEA_TRY(check_number(name, "theta", c.theta, 1, "must be finite and at least 1"));
  FOVEA_TRY(check_factor(name, c));
  FOVEA_TRY(check_number(name, "attention_factor", c.attention_factor, 0, "must be finite and not negative"));
  const unsigned scaling = bit(c.scaling);
  if ((scaling & (kYarn | kLlama3 | kLongrope)) && c.original_max_position < 2) {
    return invalid_value(field(name, "original_max_position"), c.original_max_position,
                         "must be at least 2 for this scaling");
  }
  if (scaling == kNtk && spec.rotary_dim == 2) {
    return invalid_value(field(name, "rotary_dim"), 2, "ntk needs more than one pair");
  }
  if (scaling == kYarn) {
    if (!(c.theta > 1)) return invalid_value(field(name, "theta"), format_float(c.theta), "must be above 1 for yarn");
    if (!(c.beta_slow > 0) || !(c.beta_fast > c.beta_slow) || std::isinf(c.beta_fast)) {
      return invalid_value(
          field(name, "beta_fast"), format_float(c.beta_fast),
          "must be finite and above beta_slow, which is " + format_float(c.beta_slow) + " and must be positive");
    }
    if (c.yarn_truncate != 0 && c.yarn_truncate != 1) {
      return invalid_value(field(name, "yarn_truncate"), c.yarn_truncate, "must be 0 or 1");
    }
  }
  if (scaling == kLlama3 &&
      (!(c.low_freq_factor > 0) || !(c.high_freq_factor > c.low_freq_factor) || std::isinf(c.high_freq_factor))) {
    return invalid_value(field(name, "high_freq_factor"), format_float(c.high_freq_factor),
                         "must be finite and above low_freq_factor, which is " + format_float(c.low_freq_factor) +
                             " and must be positive");
  }
  return scaling == kLongrope ? check_longrope(name, c, spec) : Status();
}

Status check_sections(const char* name, const fovea_rope_config& c, RotarySpec& spec) {
  if (c.mrope_interleaved != 0 && c.mrope_interleaved != 1) {
    return invalid_value(field(name, "mrope_interleaved"), c.mrope_interleaved, "must be 0 or 1");
  }
  int64_t sum = 0;
  for (int r = 0; r < kMaxPositionRows; ++r) {
    const int32_t section = c.mrope_section[r];
    if (section < 0) {
      return invalid_value(field(name, "mrope_section[") + std::to_string(r) + "]", section, "must not be negative");
    }
    spec.section[r] = section;
    if (section > 0) spec.position_rows = r + 1;
    sum += section;
  }
  if (sum == 0) {
    if (c.mrope_interleaved) return invalid_value(field(name, "mrope_interleaved"), 1, "needs mrope_section");
    return {};
  }
  const int pairs = spec.rotary_dim / 2, rows = spec.position_rows;
  if (sum != pairs) {
    return invalid_value("the sum of " + field(name, "mrope_section"), sum,
                         "must be " + std::to_string(pairs) + " (rotary_dim / 2)");
  }
  for (int r = 1; c.mrope_interleaved && r < rows; ++r) {
    const int places = (pairs - r + rows - 1) / rows;
    if (spec.section[r] <= places) continue;
    return invalid_value(field(name, "mrope_section[") + std::to_string(r) + "]", spec.section[r],
                         "interleaved, this row has " + std::to_string(places) + " pairs");
  }
  return {};
}

Status check_tables(const char* name, const fovea_rope_config& c, Place where, RotarySpec& spec) {
  const std::string cos = field(name, "cos"), sin = field(name, "sin");
  FOVEA_TRY(check_tensor(cos.c_str(), c.cos, kF32, 2, 2, where));
  FOVEA_TRY(check_tensor(sin.c_str(), c.sin, kF32, 2, 2, where));
  FOVEA_TRY(check_dim(cos.c_str(), c.cos, 1, spec.rotary_dim / 2, "rotary_dim / 2"));
  FOVEA_TRY(check_same_shape(sin.c_str(), c.sin, cos.c_str(), c.cos));
  const fovea_rope_config d;
  if (c.theta != d.theta) return invalid_value(field(name, "theta"), format_float(c.theta), "given tables replace it");
  if (c.scaling != FOVEA_ROPE_SCALING_NONE) {
    return invalid_value(field(name, "scaling"), c.scaling, "given tables replace it");
  }
  spec.given_tables = 1;
  return {};
}

}  // namespace

Status check_rope_config(const char* name, const fovea_rope_config* config, int64_t d, Place where, RotarySpec& spec) {
  FOVEA_TRY(check_struct(name, config));
  const fovea_rope_config& c = *config;
  if (c.style != FOVEA_ROPE_NEOX && c.style != FOVEA_ROPE_GPTJ) {
    return invalid_value(field(name, "style"), c.style, "must be FOVEA_ROPE_NEOX or FOVEA_ROPE_GPTJ");
  }
  const int64_t dims = c.rotary_dim ? c.rotary_dim : d;
  if (dims < 2 || dims > std::min<int64_t>(d, kMaxRotaryDim) || dims % 2 != 0) {
    const std::string most = std::to_string(std::min<int64_t>(d, kMaxRotaryDim));
    return invalid_value(field(name, "rotary_dim"), dims, "must be even and in [2, " + most + "] (0 = all dims)");
  }
  spec = {.style = static_cast<RopeStyle>(c.style), .rotary_dim = static_cast<int>(dims)};
  if (present(c.cos) || present(c.sin)) FOVEA_TRY(check_tables(name, c, where, spec));
  FOVEA_TRY(check_scaling(name, c, spec));
  FOVEA_TRY(check_sections(name, c, spec));
  spec.scaling = static_cast<RopeScaling>(c.scaling);
  spec.interleaved = c.mrope_interleaved;
  spec.yarn_truncate = c.yarn_truncate;
  spec.theta = c.theta;
  spec.factor = c.factor;
  spec.low_freq_factor = c.low_freq_factor;
  spec.high_freq_factor = c.high_freq_factor;
  spec.beta_fast = c.beta_fast;
  spec.beta_slow = c.beta_slow;
  spec.attention_factor = c.attention_factor;
  spec.original_max_position = c.original_max_position;
  return {};
}

Status check_positions(const fovea_tensor& positions, int64_t tokens, const RotarySpec& spec, Place where) {
  const bool sections = std::any_of(std::begin(spec.section), std::end(spec.section), [](int n) { return n > 0; });
  const int rank = sections ? 2 : 1;
  FOVEA_TRY(check_tensor("positions", positions, kIndexTypes, rank, rank, where, LastStride::any));
  if (sections) FOVEA_TRY(check_dim("positions", positions, 0, spec.position_rows, "rows of mrope_section"));
  return check_dim("positions", positions, rank - 1, tokens, "tokens");
}

Status bind_rotary(const char* name, const fovea_rope_config& config, const fovea_tensor& positions,
                   RotaryInput& rotary) {
  FOVEA_TRY(check_data("positions", positions));
  if (present(config.cos) && config.cos.data == nullptr && elements(config.cos) > 0) {
    return invalid_value(field(name, "cos.data"), "null", "a call needs its memory");
  }
  if (present(config.sin) && config.sin.data == nullptr && elements(config.sin) > 0) {
    return invalid_value(field(name, "sin.data"), "null", "a call needs its memory");
  }
  rotary = {.positions = view_of_rank(positions, 2), .cos = view(config.cos), .sin = view(config.sin)};
  return {};
}

Status position_out_of_range(const char* name, const RotarySpec& spec, const RotaryInput& in, i64_t row, i64_t token,
                             i64_t position) {
  const std::string first = in.positions.shape[0] > 1 ? "[" + std::to_string(row) + "]" : "";
  const std::string why = spec.given_tables ? " (rows of " + std::string(name) + ".cos)" : "";
  return invalid_value("positions" + first + "[" + std::to_string(token) + "]", position,
                       "must be in [0, " + std::to_string(position_limit(spec, in)) + ")" + why);
}

}  // namespace fovea
