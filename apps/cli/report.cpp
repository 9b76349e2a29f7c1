// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "table.h"

namespace fovea::app {
namespace {

// The kernel that a plan names, without the reasons: plans say "operation: kernel, why".
std::pair<std::string, std::string> kernel_of(const std::string& explanation) {
  const size_t colon = explanation.find(": ");
  if (colon == std::string::npos) return {explanation, ""};
  const std::string rest = explanation.substr(colon + 2);
  return {explanation.substr(0, colon), rest.substr(0, std::min(rest.find(','), rest.find(" (")))};
}

void add_weights(const std::vector<WeightUse>& weights, Table* table) {
  int64_t bytes = 0, tensors = 0;
  std::string types;
  for (const WeightUse& use : weights) {
    bytes += use.bytes;
    tensors += use.tensors;
    types += (types.empty() ? "" : ", ") + std::string(fovea_dtype_name(use.dtype)) + " " + megabytes(use.bytes);
  }
  table->row({"weights", std::to_string(tensors) + " tensors", megabytes(bytes), types});
}

double rate(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

}  // namespace

std::string stats_table(const EngineOptions& options, const RunStats& s) {
  Table figures;
  const auto phase = [&](const char* name, int64_t tokens, double seconds) {
    figures.row({name, std::to_string(tokens) + " tokens", fixed(seconds, 2) + " s",
                 fixed(rate(tokens, seconds), 1) + " tokens/s"});
  };
  phase("prefill", s.prefill_tokens, s.prefill_seconds);
  phase("decode", s.decode_tokens, s.decode_seconds);
  add_weights(s.weights, &figures);
  figures.row({"kv cache", options.kv.name(), fixed(s.cache_bytes_per_token, 0) + " bytes/token",
               std::to_string(s.cache_tokens) + " tokens in pages of " + std::to_string(options.page_size) + ", " +
                   megabytes(s.cache_bytes)});
  if (s.shared_tokens > 0) {
    figures.row({"shared", std::to_string(s.shared_tokens) + " tokens", "of " + std::to_string(s.prompt_tokens),
                 std::to_string(s.copied_pages) + " pages copied on write"});
  }
  std::map<std::pair<std::string, std::string>, std::pair<int, int>> calls;  // of each phase
  for (const auto& [explanation, count] : s.prefill_kernels) calls[kernel_of(explanation)].first += count;
  for (const auto& [explanation, count] : s.decode_kernels) calls[kernel_of(explanation)].second += count;
  Table kernels;
  kernels.row({"operation", "kernel", "calls per step: prefill", "decode"});
  for (const auto& [kernel, count] : calls) {
    kernels.row({kernel.first, kernel.second, std::to_string(count.first), std::to_string(count.second)});
  }
  return figures.text() + "\n" + kernels.text();
}

nlohmann::json stats_json(const EngineOptions& options, const RunStats& s) {
  nlohmann::json kernels = nlohmann::json::array();
  const auto add = [&](const char* phase, const Graph::Kernels& used) {
    for (const auto& [explanation, calls] : used) {
      kernels.push_back({{"phase", phase}, {"explanation", explanation}, {"calls_per_step", calls}});
    }
  };
  add("prefill", s.prefill_kernels);
  add("decode", s.decode_kernels);
  nlohmann::json weights = nlohmann::json::array();
  for (const WeightUse& use : s.weights) {
    weights.push_back({{"type", fovea_dtype_name(use.dtype)}, {"tensors", use.tensors}, {"bytes", use.bytes}});
  }
  return {{"prefill", {{"tokens", s.prefill_tokens}, {"seconds", s.prefill_seconds}}},
          {"decode", {{"tokens", s.decode_tokens}, {"seconds", s.decode_seconds}}},
          {"cache",
           {{"kv", options.kv.name()},
            {"page_size", options.page_size},
            {"bytes_per_token", s.cache_bytes_per_token},
            {"tokens", s.cache_tokens},
            {"bytes", s.cache_bytes},
            {"shared_tokens", s.shared_tokens},
            {"copied_pages", s.copied_pages}}},
          {"weights", weights},
          {"kernels", kernels}};
}

}  // namespace fovea::app
