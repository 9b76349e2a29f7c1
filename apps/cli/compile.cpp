// SPDX-License-Identifier: Apache-2.0
// fovea compile: the kernels that a model needs in a deployment, as a bundle, on a machine that needs no device.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fovea/fovea.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/case.h"
#include "commands.h"
#include "deploy/deployment.h"
#include "engine/error.h"
#include "engine/quoted.h"

namespace fovea::app {

namespace {

struct CompileOptions {
  std::vector<std::string> archs;
  std::string config, output, dtype, layout = "nhd", scale, nvrtc, cache;
  std::vector<std::string> codecs;
  Deployment deployment;
  int jobs = 0;
};

int32_t word(const char* option, const std::string& text, std::span<const bench::Word> words) {
  std::string allowed;
  for (const bench::Word& w : words) {
    if (text == w.name) return w.value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(w.name);
  }
  throw Error(std::string(option) + " is " + text + ": must be one of " + allowed);
}

Deployment deployment_of(const CompileOptions& o, const ModelAttention& model) {
  Deployment d = o.deployment;
  d.dtype = o.dtype.empty() ? model.dtype : word("--dtype", o.dtype, bench::float_types());
  if (d.dtype == 0) throw Error(o.config + " does not say which type the model computes in: give --dtype");
  static constexpr bench::Word kLayouts[] = {{"nhd", bench::kNhd}, {"hnd", bench::kHnd}};
  d.layout = word("--layout", o.layout, kLayouts);
  if (!o.scale.empty()) d.scale_kind = word("--kv-scale", o.scale, bench::scale_kinds());
  for (const std::string& codec : o.codecs) d.codecs.push_back(word("--kv", codec, bench::codecs()));
  if (d.codecs.empty()) d.codecs.push_back(word("--kv", fovea_dtype_name(d.dtype), bench::codecs()));
  if (d.max_len == 0) d.max_len = model.max_positions > 0 ? model.max_positions : Deployment().max_len;
  return d;
}

std::string describe(const ModelAttention& model, const Deployment& d) {
  std::ostringstream text;
  text << (model.type.empty() ? "a model" : printable(model.type)) << ", " << fovea_dtype_name(d.dtype);
  for (const AttentionLayers& l : model.layers) {
    text << "; " << l.name << " layers: " << l.heads << " heads, " << l.kv_heads << " kv heads, d " << l.d_k;
    if (l.d_v != l.d_k) text << "/" << l.d_v;
    if (l.window > 0) text << ", window " << l.window;
    if (l.chunk > 0) text << ", chunks of " << l.chunk;
    if (l.softcap > 0) text << ", softcap " << l.softcap;
    if (l.sinks) text << ", sinks";
    if (l.alibi) text << ", ALiBi";
  }
  return text.str();
}

// Reasons by the first case that has them, and how many cases do.
struct Refusals {
  struct Entry {
    std::string what;
    size_t count = 0;
  };
  std::map<std::string, Entry> by_reason;
  std::mutex mutex;

  void add(const std::string& what, const std::string& reason) {
    const std::lock_guard lock(mutex);
    Entry& entry = by_reason[reason];
    if (entry.count++ == 0) entry.what = what;
  }
};

void plan_all(const Context& context, const std::vector<DeployedCase>& cases, int jobs, Refusals& refusals) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++) {
      try {
        bench::plan_case(context, cases[i].op, cases[i].shape);
      } catch (const std::exception& e) {
        refusals.add(cases[i].what, e.what());
      }
    }
  };
  const auto wanted = jobs > 0 ? static_cast<size_t>(jobs) : size_t{std::max(std::thread::hardware_concurrency(), 1u)};
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(wanted, cases.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

std::string file_for(const CompileOptions& o, const std::string& isa) {
  std::error_code ignored;
  if (o.archs.size() == 1 && !std::filesystem::is_directory(o.output, ignored)) return o.output;
  std::filesystem::create_directories(o.output, ignored);
  return o.output + "/fovea-" + isa + ".bundle";
}

Context open_context(const CompileOptions& o, const std::string& arch) {
  const auto path = [](const std::string& given) { return given.empty() ? nullptr : given.c_str(); };
  return Context({.device_type = FOVEA_CUDA,
                  .compile = FOVEA_COMPILE_ALLOWED,
                  .bundle = "",
                  .cache_dir = o.cache == "none" ? "" : path(o.cache),
                  .nvrtc = path(o.nvrtc),
                  .arch = arch.c_str()});
}

void print_kernels(const Context& context, const std::string& file, double seconds) {
  const DeviceInfo info = context.info();
  char line[160];
  std::snprintf(line, sizeof line, "%s: %d kernels, %lld of them compiled now, %.1f KB, %.1f s -> ", info.isa,
                info.kernels_loaded, static_cast<long long>(info.kernels_compiled),
                static_cast<double>(std::filesystem::file_size(file)) / 1e3, seconds);
  std::cout << line << file << "\n";
  std::istringstream kernels(context.kernels());
  for (std::string kernel; std::getline(kernels, kernel);) {
    std::cout << "  " << kernel.substr(kernel.find(' ') + 1) << "\n";  // without the key
  }
}

// Whether there was anything to compile.
bool compile_for(const CompileOptions& o, const Context& context, const std::vector<DeployedCase>& cases) {
  const auto start = std::chrono::steady_clock::now();
  Refusals refusals;
  plan_all(context, cases, o.jobs, refusals);
  const DeviceInfo info = context.info();
  if (info.kernels_loaded > 0) {
    const std::string file = file_for(o, info.isa);
    context.save_kernels(file);
    print_kernels(context, file, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  } else {
    std::cout << info.isa << ": no kernel\n";
  }
  for (const auto& [reason, entry] : refusals.by_reason) {
    std::cout << "  not served: " << entry.what;
    if (entry.count > 1) std::cout << " (and " << entry.count - 1 << " more)";
    std::cout << ": " << reason << "\n";
  }
  return info.kernels_loaded > 0;
}

int run(const CompileOptions& o) {
  const ModelAttention model = read_model_attention(o.config);
  const Deployment deployment = deployment_of(o, model);
  std::vector<Context> contexts;
  for (const std::string& arch : o.archs) contexts.push_back(open_context(o, arch));
  std::cout << describe(model, deployment) << "\n";
  const std::vector<DeployedCase> cases = cases_of(model, deployment);
  bool any = false;
  for (const Context& context : contexts) any |= compile_for(o, context, cases);
  if (!std::cout.flush()) throw Error("cannot write to the standard output");
  if (!any) throw Error("nothing was compiled for this model");
  return 0;
}

}  // namespace

Command add_compile(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("compile", "Compile the CUDA kernels of a model into a bundle; needs no device");
  const auto o = std::make_shared<CompileOptions>();
  o->deployment.max_len = 0;
  Deployment& d = o->deployment;
  sub->add_option("--arch", o->archs, "architectures, for example 90a; several: -o is a folder")
      ->type_name("A")
      ->delimiter(',')
      ->required();
  sub->add_option("--model-config", o->config, "config.json of a Hugging Face model, its folder, or a GGUF file")
      ->type_name("F")
      ->required();
  sub->add_option("-o,--output", o->output, "the bundle, or a folder of bundles")->type_name("BUNDLE")->required();
  sub->add_option("--kv", o->codecs, "how K and V are stored; the model's type if not given")
      ->type_name("A,B")
      ->delimiter(',');
  sub->add_option("--kv-scale", o->scale, "what one scale of an fp8 cache covers; tensor if not given")
      ->type_name("none|tensor|head|token_head|group");
  sub->add_option("--dtype", o->dtype, "type of activations; the configuration's if not given")
      ->type_name("f32|f16|bf16");
  sub->add_option("--layout", o->layout, "order inside a page: nhd or hnd")->capture_default_str();
  const auto number = [&](const char* name, int64_t& value, int64_t low, int64_t high, const char* help) {
    sub->add_option(name, value, help)
        ->type_name("N")
        ->check(CLI::Range(low, high).description(""))
        ->capture_default_str();
  };
  number("--page-size", d.page_size, 0, 1 << 20, "tokens of a page; 0: contiguous");
  number("--max-tokens", d.max_tokens, 1, 1 << 20, "new tokens of one call");
  number("--max-batch", d.max_batch, 1, 1 << 14, "sequences of one call");
  number("--max-len", d.max_len, 0, 1 << 24, "tokens of a sequence; 0: as the configuration says");
  sub->add_option("--nvrtc", o->nvrtc, "libnvrtc, or a folder that holds it")->type_name("PATH");
  sub->add_option("--cache", o->cache, "folder that keeps what was compiled; none = no folder")->type_name("PATH");
  sub->add_option("--jobs", o->jobs, "kernels to compile at once; 0 = one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""))
      ->capture_default_str();
  return {sub, [o] { return run(*o); }};
}

}  // namespace fovea::app
