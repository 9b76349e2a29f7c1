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
    if (value == "false" || value.empty()) continue;
    text += (text.empty() ? "" : " ") + std::string(option.name) + (value == "true" ? "" : " " + value);
  }
  return text;
}

nlohmann::ordered_json shape_json(const Report& r) {
  nlohmann::ordered_json shape;
  for (const Option& option : options()) {
    if (!option.applies_to(r.op)) continue;
    const std::string value = option_text(r.shape, option);
    const bool word = std::holds_alternative<Choice>(option.kind) || std::holds_alternative<Text>(option.kind);
    shape[option.key()] = word ? nlohmann::ordered_json(value) : nlohmann::ordered_json::parse(value);
  }
  return shape;
}

bool on_cuda(const Report& r) {
  return r.device.device_type == FOVEA_CUDA;
}

std::string rate_text(double per_s, const char* unit) {  // unit "FLOP/s" gives GFLOP/s or TFLOP/s
  return per_s >= 1e12 ? format("%.2f T%s", per_s / 1e12, unit) : format("%.2f G%s", per_s / 1e9, unit);
}

std::string machine_text(const Report& r) {
  const DeviceInfo& d = r.device;
  if (!on_cuda(r)) return format("%s, %s, %d thread%s", d.name, d.isa, d.threads, d.threads == 1 ? "" : "s");
  return format("%s, %s, %d multiprocessors, %.0f MiB of L2, driver %s", d.name, d.isa, d.sm_count,
                static_cast<double>(d.l2_bytes) / (1 << 20), d.driver);
}

std::string samples_text(const Report& r) {
  const auto number = [](int64_t n) { return static_cast<long long>(n); };
  std::string text = format("%lld samples of %lld call%s", number(r.timing.samples), number(r.timing.calls),
                            r.timing.calls == 1 ? "" : "s");
  if (r.graph > 0) text += format(", replays of graphs of %lld", number(r.graph));
  if (r.early) text += ", launched early";
  return text;
}

std::string roof_text(const Report& r, const Rating& rating) {
  const Roof& roof = r.roof;
  if (!on_cuda(r)) {
    return format("%.1f %% of %s; here: read %.1f GB/s, copy %.1f GB/s, multiply-add %.1f GFLOP/s", rating.percent,
                  rating.memory_bound ? "memory" : "arithmetic", roof.read_bytes_per_s / 1e9,
                  roof.copy_bytes_per_s / 1e9, roof.flops_per_s / 1e9);
  }
  const std::string copy = rate_text(roof.copy_bytes_per_s, "B/s") + " (" + roof.copy_text + ")";
  std::string text = format("%.1f %% of copy, ", rating.memory_percent) + copy;
  if (roof.flops_per_s == 0) return text + "; bf16 product: not measured (" + roof.flops_text + ")";
  text += format("; %.1f %% of bf16 product, ", rating.arithmetic_percent);
  return text + rate_text(roof.flops_per_s, "FLOP/s") + " (" + roof.flops_text + ")";
}

nlohmann::ordered_json roof_json(const Report& r, const Rating& rating) {
  const Roof& roof = r.roof;
  const char* bound = rating.memory_bound ? "memory" : "arithmetic";
  if (!on_cuda(r)) {
    return {{"read_gb_per_s", roof.read_bytes_per_s / 1e9},
            {"copy_gb_per_s", roof.copy_bytes_per_s / 1e9},
            {"fma_gflop_per_s", roof.flops_per_s / 1e9},
            {"bound", bound},
            {"percent", rating.percent}};
  }
  const auto if_measured = [&](double value) {
    return roof.flops_per_s > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"copy_gb_per_s", roof.copy_bytes_per_s / 1e9},
          {"copy", roof.copy_text},
          {"bf16_gflop_per_s", if_measured(roof.flops_per_s / 1e9)},
          {"bf16", roof.flops_text},
          {"percent_of_copy", rating.memory_percent},
          {"percent_of_bf16", if_measured(rating.arithmetic_percent)},
          {"bound", bound},
          {"percent", rating.percent}};
}

}  // namespace

std::string to_text(const Report& r) {
  const Rating rating = rate(r.work, r.timing, r.roof);
  const auto line = [](const char* name, const std::string& text) { return format("%-8s ", name) + text + "\n"; };
  std::string text = line(fovea_op_name(r.op), (r.preset.empty() ? "" : r.preset + ": ") + shape_text(r));
  text += line("kernel", r.kernel);
  text += line("machine", machine_text(r));
  text +=
      line("data", format("%llu sets in turn, %s touched by a call, %s in all", static_cast<unsigned long long>(r.sets),
                          mib(r.work.bytes).c_str(), mib(static_cast<double>(r.bytes)).c_str()));
  text += line("time", format("median %s, min %s, p90 %s (", duration(r.timing.median).c_str(),
                              duration(r.timing.min).c_str(), duration(r.timing.p90).c_str()) +
                           samples_text(r) + ")");
  if (on_cuda(r)) {
    text += line("start", "plan with its kernels " + duration(r.plan_seconds) + ", first call until done " +
                              duration(r.timing.first));
  }
  text += line("rate", format("%.2f GB/s", rating.bytes_per_s / 1e9) +
                           (r.work.flops > 0 ? ", " + rate_text(rating.flops_per_s, "FLOP/s") : ""));
  text += line("roof", roof_text(r, rating));
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
      {"roof", roof_json(r, rating)}};
  if (on_cuda(r)) {
    json["device"] = {{"driver", r.device.driver},
                      {"multiprocessors", r.device.sm_count},
                      {"l2_bytes", r.device.l2_bytes},
                      {"bundle", r.device.bundle},
                      {"kernels", r.kernels}};
    json["graph_calls"] = r.graph;
    json["early"] = r.early;
    json["start_seconds"] = {{"plan", r.plan_seconds}, {"first_call", r.timing.first}};
  }
  return json.dump(2) + "\n";
}

}  // namespace fovea::bench
