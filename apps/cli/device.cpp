// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <charconv>
#include <utility>

#include "engine/error.h"

namespace fovea::app {
namespace {

struct Kind {
  const char* name;
  int32_t type;
};
constexpr Kind kKinds[] = {{"cpu", FOVEA_CPU}, {"cuda", FOVEA_CUDA}, {"metal", FOVEA_METAL}};

// "cuda:1" is the second CUDA device, "cuda" the first.
void parse_device(const std::string& text, ContextParams* params) {
  const size_t colon = text.find(':');
  const std::string number = colon == std::string::npos ? "0" : text.substr(colon + 1);
  const char* last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, params->device_id);
  const bool is_number = error == std::errc() && end == last && params->device_id >= 0;
  for (const Kind& kind : kKinds) {
    if (!is_number || text.substr(0, colon) != kind.name) continue;
    params->device_type = kind.type;
    return;
  }
  throw Error("--device is '" + text + "': must be cpu, cuda or metal, with an optional number such as cuda:1");
}

// Somebody who types a command waits for a compiler rather than reading why there is no kernel.
int32_t parse_compile(const std::string& text) {
  if (text.empty() || text == "allowed") return FOVEA_COMPILE_ALLOWED;
  if (text == "never") return FOVEA_COMPILE_NEVER;
  if (text == "warm") return FOVEA_COMPILE_WARM;
  throw Error("--compile is '" + text + "': must be never, allowed or warm");
}

}  // namespace

void DeviceOptions::add_to(CLI::App& app) {
  app.add_option("--device", device_, "where to run: cpu, cuda or cuda:N, metal")->capture_default_str();
  app.add_option("--threads", threads_, "CPU threads; 0 = one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""))
      ->capture_default_str();
  app.add_option("--isa", isa_, "CPU: use this instruction set (fovea info lists them)");
  app.add_option("--compile", compile_,
                 "CUDA: compile kernels that are in no bundle and no cache; allowed if not given")
      ->type_name("never|allowed|warm");
  app.add_option("--bundle", bundle_, "CUDA: compiled kernels: a bundle, or a folder of bundles; none = no bundle")
      ->type_name("PATH");
  app.add_option("--cache", cache_, "CUDA: folder that keeps what was compiled; none = no folder")->type_name("PATH");
  app.add_option("--nvrtc", nvrtc_, "CUDA: libnvrtc, or a folder that holds it")->type_name("PATH");
}

Context DeviceOptions::open() const {
  ContextParams params;
  parse_device(device_, &params);
  params.threads = threads_;
  if (!isa_.empty()) params.isa = isa_.c_str();
  const std::pair<const char*, const std::string*> of_cuda[] = {
      {"--compile", &compile_}, {"--bundle", &bundle_}, {"--cache", &cache_}, {"--nvrtc", &nvrtc_}};
  for (const auto& [name, given] : of_cuda) {
    if (params.device_type == FOVEA_CUDA || given->empty()) continue;
    throw Error(std::string(name) + " is for CUDA: --device is " + device_);
  }
  if (params.device_type == FOVEA_CUDA) params.compile = parse_compile(compile_);
  const auto path = [](const std::string& given) {
    return given.empty() ? nullptr : given == "none" ? "" : given.c_str();
  };
  params.bundle = path(bundle_);
  params.cache_dir = path(cache_);
  if (!nvrtc_.empty()) params.nvrtc = nvrtc_.c_str();
  return Context(params);
}

}  // namespace fovea::app
