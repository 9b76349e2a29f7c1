// SPDX-License-Identifier: Apache-2.0
// fovea info: what this build can do on this machine, and what a bundle holds.
#include <fovea/fovea.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/support.h"
#include "commands.h"
#include "engine/error.h"
#include "table.h"

namespace fovea::app {
namespace {

using Names = std::vector<std::string>;

Names operations() {
  return {
#define FOVEA_OP(name, Name, NAME, value, text) #name,
#include <fovea/operations.def>
#undef FOVEA_OP
  };
}

Names kv_types() {
  return {
#define FOVEA_CODEC(name, NAME, value, dtype) #name,
#include <fovea/codecs.def>
#undef FOVEA_CODEC
  };
}

struct Backend {
  const char* name;
  int32_t type;
};
constexpr Backend kBackends[] = {{"cpu", FOVEA_CPU}, {"cuda", FOVEA_CUDA}, {"metal", FOVEA_METAL}};

void add_cuda(const DeviceInfo& info, nlohmann::json* device) {
  const nlohmann::json facts = {{"compute_capability", info.compute_capability},
                                {"multiprocessors", info.sm_count},
                                {"memory_bytes", info.memory_bytes},
                                {"l2_bytes", info.l2_bytes},
                                {"driver", info.driver},
                                {"nvrtc", info.nvrtc},
                                {"bundle", info.bundle},
                                {"cache", info.cache},
                                {"kernels", info.kernels_loaded}};
  device->update(facts);
}

// Every device of every backend, or the reason why a backend has none.
nlohmann::json devices() {
  nlohmann::json out = nlohmann::json::array();
  for (const Backend& backend : kBackends) {
    for (int32_t id = 0;; ++id) {
      ContextParams params;
      params.device_type = backend.type;
      params.device_id = id;
      try {
        const DeviceInfo info = Context(params).info();
        out.push_back({{"backend", backend.name},
                       {"device", id},
                       {"name", info.name},
                       {"threads", info.threads},
                       {"isa", info.isa},
                       {"isa_available", info.isa_compiled}});
        if (backend.type == FOVEA_CUDA) add_cuda(info, &out.back());
      } catch (const fovea::Error& e) {
        if (id == 0) out.push_back({{"backend", backend.name}, {"unavailable", e.what()}});
        break;
      }
    }
  }
  return out;
}

std::string joined(const Names& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

void add_device(const nlohmann::json& device, Table* table) {
  const auto text = [&](const char* key) { return device[key].get<std::string>(); };
  if (device.contains("unavailable")) return table->row({text("backend"), "not available: " + text("unavailable")});
  table->row({text("backend") + ":" + std::to_string(device["device"].get<int>()), text("name")});
  if (const int threads = device["threads"].get<int>(); threads > 0) table->row({"  threads", std::to_string(threads)});
  if (!text("isa_available").empty()) {
    table->row({"  instructions", text("isa") + " (available: " + text("isa_available") + ")"});
  } else if (!text("isa").empty()) {
    table->row({"  kernels for", text("isa")});
  }
  for (const char* key : {"driver", "nvrtc", "bundle", "cache"}) {
    if (device.contains(key)) table->row({std::string("  ") + key, text(key)});
  }
  if (device.contains("kernels")) {
    table->row({"  loaded", std::to_string(device["kernels"].get<int>()) +
                                " kernels; plans load theirs, and --bundle FILE lists those of a bundle"});
  }
}

// Everything was written, or an error.
int finish() {
  if (!std::cout.flush()) throw Error("cannot write to the standard output");
  return 0;
}

int run(bool json) {
  const nlohmann::json found = devices();
  if (json) {
    const nlohmann::json document = {
        {"version", fovea_version()}, {"devices", found}, {"operations", operations()}, {"kv_types", kv_types()}};
    std::cout << document.dump(2) << '\n';
    return finish();
  }
  Table table;
  table.row({"version", fovea_version()});
  for (const nlohmann::json& device : found) add_device(device, &table);
  table.row({"operations", joined(operations())});
  table.row({"kv types", joined(kv_types())});
  std::cout << table.text();
  return finish();
}

int print_support() {
  std::cout << bench::support_tables(Context({.threads = 1}));
  return finish();
}

int print_bundle(const std::string& path, bool json) {
  std::istringstream lines(bundle_kernels(path));
  std::string about, line;
  std::getline(lines, about);
  nlohmann::json document = {{"bundle", path}, {"about", about}, {"kernels", nlohmann::json::array()}};
  if (!json) std::cout << path << ": " << about << "\n";
  while (std::getline(lines, line)) {
    if (!json) {
      std::cout << line << "\n";
      continue;
    }
    // "<key> <name> <bytes> bytes, .."; the name may hold spaces
    const size_t key_end = line.find(' '), words = line.rfind(" bytes, "), number = line.rfind(' ', words - 1);
    nlohmann::json kernel = {{"key", line.substr(0, key_end)},
                             {"name", line.substr(key_end + 1, number - key_end - 1)},
                             {"bytes", std::stoll(line.substr(number + 1))}};
    std::istringstream numbers(line.substr(words + 8));
    for (std::string value, what; numbers >> value >> what;) {
      if (what.back() == ',') what.pop_back();
      kernel[what] = std::stoi(value);
    }
    document["kernels"].push_back(kernel);
  }
  if (json) std::cout << document.dump(2) << "\n";
  return finish();
}

}  // namespace

Command add_info(CLI::App& app) {
  CLI::App* options = app.add_subcommand("info", "Show version, backends, devices and instruction sets");
  const auto json = std::make_shared<bool>(false), support = std::make_shared<bool>(false);
  CLI::Option* as_json = options->add_flag("--json", *json, "print JSON");
  options->add_flag("--support", *support, "print what each operation takes on the CPU, as Markdown")
      ->excludes(as_json);
  const auto bundle = std::make_shared<std::string>();
  options->add_option("--bundle", *bundle, "list the kernels of this bundle")->type_name("FILE")->excludes("--support");
  return {options, [json, support, bundle] {
            if (!bundle->empty()) return print_bundle(*bundle, *json);
            return *support ? print_support() : run(*json);
          }};
}

}  // namespace fovea::app
