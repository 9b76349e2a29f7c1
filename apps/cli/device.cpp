// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <charconv>

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

}  // namespace

void DeviceOptions::add_to(CLI::App& app) {
  app.add_option("--device", device_, "where to run: cpu, cuda or cuda:N, metal")->capture_default_str();
  app.add_option("--threads", threads_, "CPU threads; 0 = one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""))
      ->capture_default_str();
  app.add_option("--isa", isa_, "CPU: use this instruction set (fovea info lists them)");
}

Context DeviceOptions::open() const {
  ContextParams params;
  parse_device(device_, &params);
  params.threads = threads_;
  if (!isa_.empty()) params.isa = isa_.c_str();
  return Context(params);
}

}  // namespace fovea::app
