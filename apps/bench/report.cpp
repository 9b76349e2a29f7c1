// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace fovea::bench {

namespace {

// printf into a string; results are lines of a report.
template <class... Args>
std::string format(const char* pattern, Args... args) {
  char line[256];
  const int n = std::snprintf(line, sizeof line, pattern, args...);
  return std::string(line, static_cast<size_t>(n < 0 ? 0 : n) < sizeof line ? static_cast<size_t>(n) : sizeof line - 1);
}

std::string duration(double seconds) {
  if (seconds >= 1) return format("%.3f s", seconds);
  return seconds >= 1e-3 ? format("%.3f ms", seconds * 1e3) : format("%.2f us", seconds * 1e6);
}

std::string mib(double bytes) {
  return bytes >= 1 << 20 ? format("%.1f MiB", bytes / (1 << 20)) : format("%.1f KiB", bytes / 1024);
}

std::string shape_text(const Report& r) {
  std::string text;
  for (const Option& option : options()) {
    if (!option.applies_to(r.op)) continue;
    const std::string value = option_text(r.shape, option);
    if (value == "false") continue;
    text += (text.empty() ? "" : " ") + std::string(option.name) + (value == "true" ? "" : " " + value);
  }
  return text;
}

nlohmann::ordered_json shape_json(const Report& r) {
  nlohmann::ordered_json shape;
  for (const Option& option : options()) {
    if (!option.applies_to(r.op)) continue;
    const std::string value = option_text(r.shape, option);
    const bool word = std::holds_alternative<Choice>(option.kind);
    shape[option.key()] = word ? nlohmann::ordered_json(value) : nlohmann::ordered_json::parse(value);
  }
  return shape;
}

}  // namespace

std::string to_text(const Report& r) {
  const Rating rating = rate(r.work, r.timing, r.roof);
  const auto line = [](const char* name, const std::string& text) { return format("%-8s ", name) + text + "\n"; };
  std::string text = line(fovea_op_name(r.op), (r.preset.empty() ? "" : r.preset + ": ") + shape_text(r));
  text += line("kernel", r.kernel);
  text += line("machine", format("%s, %s, %d thread%s", r.device.name, r.device.isa, r.device.threads,
                                 r.device.threads == 1 ? "" : "s"));
  text +=
      line("data", format("%llu sets in turn, %s touched by a call, %s in all", static_cast<unsigned long long>(r.sets),
                          mib(r.work.bytes).c_str(), mib(static_cast<double>(r.bytes)).c_str()));
  text += line("time", format("median %s, min %s, p90 %s (%lld samples of %lld call%s)",
                              duration(r.timing.median).c_str(), duration(r.timing.min).c_str(),
                              duration(r.timing.p90).c_str(), static_cast<long long>(r.timing.samples),
                              static_cast<long long>(r.timing.calls), r.timing.calls == 1 ? "" : "s"));
  text += line("rate", format("%.2f GB/s", rating.bytes_per_s / 1e9) +
                           (r.work.flops > 0 ? format(", %.2f GFLOP/s", rating.flops_per_s / 1e9) : ""));
  text += line("roof", format("%.1f %% of %s; here: read %.1f GB/s, copy %.1f GB/s, multiply-add %.1f GFLOP/s",
                              rating.percent, rating.memory_bound ? "memory" : "arithmetic",
                              r.roof.read_bytes_per_s / 1e9, r.roof.copy_bytes_per_s / 1e9, r.roof.flops_per_s / 1e9));
  return text;
}

std::string to_json(const Report& r) {
  const Rating rating = rate(r.work, r.timing, r.roof);
  nlohmann::ordered_json json = {
      {"version", fovea_version()},
      {"machine", r.device.name},
      {"isa", r.device.isa},
      {"threads", r.device.threads},
      {"op", fovea_op_name(r.op)},
      {"preset", r.preset.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(r.preset)},
      {"shape", shape_json(r)},
      {"kernel", r.kernel},
      {"data", {{"sets", r.sets}, {"bytes", r.bytes}, {"seed", r.seed}}},
      {"work", {{"bytes", r.work.bytes}, {"flops", r.work.flops}}},
      {"seconds",
       {{"median", r.timing.median},
        {"min", r.timing.min},
        {"p90", r.timing.p90},
        {"samples", r.timing.samples},
        {"calls_per_sample", r.timing.calls}}},
      {"gb_per_s", rating.bytes_per_s / 1e9},
      {"gflop_per_s", rating.flops_per_s / 1e9},
      {"roof",
       {{"read_gb_per_s", r.roof.read_bytes_per_s / 1e9},
        {"copy_gb_per_s", r.roof.copy_bytes_per_s / 1e9},
        {"fma_gflop_per_s", r.roof.flops_per_s / 1e9},
        {"bound", rating.memory_bound ? "memory" : "arithmetic"},
        {"percent", rating.percent}}}};
  return json.dump(2) + "\n";
}

}  // namespace fovea::bench
