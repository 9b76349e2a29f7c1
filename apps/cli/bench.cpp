// SPDX-License-Identifier: Apache-2.0
// fovea bench OP: times an operation beside the limits of the machine.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "bench/cuda_measure.h"
#include "bench/measure.h"
#include "bench/report.h"
#include "commands.h"
#include "device.h"
#include "engine/error.h"
#include "progress.h"

namespace fovea::app {

namespace {

using namespace bench;

constexpr uint64_t kMaxRoofBytes = uint64_t{1} << 30;

// What every operation's command has beside its shape.
struct RunOptions {
  std::string preset;
  DeviceOptions device;
  uint64_t seed = 0;
  int64_t samples = 21;
  int64_t memory = 256;  // MiB
  int64_t graph = 0;     // calls; 0: none
  bool early = false;
  std::string cublaslt;
  bool json = false;
};

uint64_t rotate_bytes(const RunOptions& o, const DeviceInfo& device) {
  const uint64_t asked = static_cast<uint64_t>(o.memory) << 20;
  return std::max(asked, 2 * static_cast<uint64_t>(std::max<int64_t>(device.l2_bytes, 0)));
}

void check_device(const RunOptions& o, const DeviceInfo& device) {
  if (device.device_type == FOVEA_CUDA) return;
  if (o.graph != 0) throw Error("--graph is " + std::to_string(o.graph) + ": only CUDA replays graphs");
  if (o.early) throw Error("--early: only CUDA has early launches");
  if (!o.cublaslt.empty()) throw Error("--cublaslt is " + o.cublaslt + ": only CUDA has it");
}

Report run(int32_t op, const Shape& shape, const RunOptions& o) {
  const Context context = o.device.open();
  const DeviceInfo device = context.info();
  check_device(o, device);
  const std::unique_ptr<CudaDevice> cuda =
      device.device_type == FOVEA_CUDA ? std::make_unique<CudaDevice>(device.device_id) : nullptr;
  Memory& memory = cuda ? static_cast<Memory&>(*cuda) : host_memory();
  Progress progress;
  progress.say("filling memory");
  std::unique_ptr<Case> c =
      make_case(context, memory, op, shape, rotate_bytes(o, device), o.seed, o.early ? FOVEA_EXEC_EARLY : 0);
  Report report{.op = op,
                .preset = o.preset,
                .shape = shape,
                .device = device,
                .kernel = c->explain(),
                .kernels = context.kernels(),
                .sets = c->sets(),
                .bytes = c->bytes(),
                .seed = o.seed,
                .work = c->work(),
                .plan_seconds = c->plan_seconds(),
                .graph = o.graph,
                .early = o.early};
  progress.say("warming up");
  const auto say_sample = [&](int64_t done) {
    progress.say("sample " + std::to_string(done + 1) + " of " + std::to_string(o.samples));
  };
  report.timing = cuda ? measure_on(*cuda, *c, o.samples, o.graph, say_sample) : measure(*c, o.samples, say_sample);
  progress.say("measuring the roof");
  const double touched = static_cast<double>(c->sets()) * c->work().bytes;
  if (cuda) {
    c.reset();  // its memory may be needed
    report.roof = measure_cuda_roof(*cuda, o.cublaslt);
  } else {
    report.roof = measure_roof(device.threads, device.isa, std::min(kMaxRoofBytes, static_cast<uint64_t>(touched)));
  }
  return report;
}

// The options of one operation's command: shapes stay texts until the preset is known, which they override.
struct Benchmark {
  int32_t op = 0;
  RunOptions run;
  std::vector<std::pair<const Option*, CLI::Option*>> given;

  Shape shape() const {
    Shape shape;
    if (!run.preset.empty()) apply_preset(op, run.preset, shape);
    for (const auto& [option, parsed] : given) {
      if (parsed->count() == 0) continue;
      const bool flag = std::holds_alternative<Flag>(option->kind);
      set_option(shape, *option, flag ? "true" : parsed->as<std::string>());
    }
    return shape;
  }
};

std::string words_of(const Option& option) {
  if (std::holds_alternative<Text>(option.kind)) return "NAME";
  const auto* choice = std::get_if<Choice>(&option.kind);
  if (choice == nullptr) return std::holds_alternative<Real>(option.kind) ? "X" : "N";
  std::string words;
  for (const Word& word : choice->words) words += (words.empty() ? "" : "|") + std::string(word.name);
  return words;
}

void add_shape_options(CLI::App& app, Benchmark& benchmark) {
  for (const Option& option : options()) {
    if (!option.applies_to(benchmark.op)) continue;
    if (std::holds_alternative<Flag>(option.kind)) {
      benchmark.given.emplace_back(&option, app.add_flag(option.name, option.help)->group("Shape"));
      continue;
    }
    CLI::Option* parsed = app.add_option(option.name, option.help)->group("Shape");
    parsed->type_name(words_of(option))->default_str(option_text(Shape(), option));
    benchmark.given.emplace_back(&option, parsed);
  }
}

void add_run_options(CLI::App& app, RunOptions& run) {
  app.add_option("--preset", run.preset, "sizes of a model in a phase; options beside it override it")
      ->type_name("NAME");
  run.device.add_to(app);
  const auto number = [&](const char* name, auto& value, auto low, auto high, const char* help) {
    app.add_option(name, value, help)
        ->type_name("N")
        ->check(CLI::Range(low, high).description(""))
        ->capture_default_str();
  };
  app.add_option("--seed", run.seed, "of the random data")->type_name("N")->capture_default_str();
  number("--samples", run.samples, 1, 100000, "times that are taken");
  number("--memory", run.memory, 1, 1 << 20, "MiB that calls touch before operands come again, twice the L2 at least");
  number("--graph", run.graph, 0, 10000, "CUDA: replay captured graphs of so many calls; 0: single calls");
  app.add_flag("--early", run.early, "CUDA, from 9.0: calls start while the one before them ends");
  app.add_option("--cublaslt", run.cublaslt, "CUDA: libcublasLt, or a folder that holds it, for the bf16 product")
      ->type_name("PATH");
  app.add_flag("--json", run.json, "print JSON");
}

void list_presets() {
  size_t width = 0;
  for (const Preset& preset : presets()) width = std::max(width, preset.name.size());
  for (const Preset& preset : presets()) {
    std::cout << preset.name << std::string(width + 2 - preset.name.size(), ' ') << preset.options << "\n";
  }
}

const char* text_of(int32_t op) {
  switch (op) {
#define FOVEA_OP(name, Name, NAME, value, text) \
  case value:                                   \
    return text;
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      return "";
  }
}

}  // namespace

Command add_bench(CLI::App& app) {
  CLI::App* options = app.add_subcommand("bench", "Time an operation beside the limits of this machine, or a model");
  options->require_subcommand(0, 1);
  const auto list = std::make_shared<bool>(false);
  options->add_flag("--list-presets", *list, "name the presets");
  const auto benchmarks = std::make_shared<std::vector<std::pair<CLI::App*, Benchmark>>>();
  benchmarks->reserve(operations().size());  // options point into it
  for (const Word& op : operations()) {
    auto& [sub, benchmark] = benchmarks->emplace_back(options->add_subcommand(op.name, text_of(op.value)), Benchmark());
    benchmark.op = op.value;
    add_run_options(*sub, benchmark.run);
    add_shape_options(*sub, benchmark);
  }
  const Command model = add_bench_model(*options);
  return {options, [list, benchmarks, model] {
            if (*list) list_presets();
            if (model.options->parsed()) return model.run();
            for (const auto& [sub, benchmark] : *benchmarks) {
              if (!sub->parsed()) continue;
              const Report report = run(benchmark.op, benchmark.shape(), benchmark.run);
              std::cout << (benchmark.run.json ? to_json(report) : to_text(report));
              if (!std::cout.flush()) throw Error("cannot write to the standard output");
              return 0;
            }
            if (!*list) throw Error("give an operation, or model; fovea bench --help names them");
            return 0;
          }};
}

}  // namespace fovea::app
