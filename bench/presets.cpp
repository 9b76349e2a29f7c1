// SPDX-License-Identifier: Apache-2.0
// Every operation at every preset of `fovea bench`, as Google Benchmark: its filters, repetitions and comparisons of
// two runs. The cases are those of `fovea bench`; environment and options are Google Benchmark's own.
#include <benchmark/benchmark.h>

#include <exception>
#include <memory>
#include <string>

#include "bench/case.h"

namespace {

using namespace fovea::bench;

constexpr uint64_t kRotateBytes = uint64_t{256} << 20;

const fovea::Context& context() {
  static const fovea::Context cpu;
  return cpu;
}

// A benchmark is entered several times while its number of iterations is sought; its memory is filled once, and given
// back when the next one comes.
Case& case_of(const std::string& name, int32_t op, const Preset& preset) {
  static std::string current;
  static std::unique_ptr<Case> made;
  if (current != name) {
    current.clear();
    made.reset();
    Shape shape;
    apply_preset(op, preset.name, shape);
    made = make_case(context(), host_memory(), op, shape, kRotateBytes, 0);
    current = name;
  }
  return *made;
}

void run(benchmark::State& state, const std::string& name, int32_t op, const Preset& preset) {
  Case* c = nullptr;
  try {
    c = &case_of(name, op, preset);
  } catch (const std::exception& error) {
    return state.SkipWithError(error.what());
  }
  uint64_t set = 0;
  for (auto _ : state) {
    c->run(set);
    set = set + 1 == c->sets() ? 0 : set + 1;
  }
  using benchmark::Counter;
  state.counters["bytes"] = Counter(c->work().bytes, Counter::kIsIterationInvariantRate);
  state.counters["flops"] = Counter(c->work().flops, Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Word& op : operations()) {
    for (const Preset& preset : presets()) {
      const std::string name = std::string(op.name) + "/" + preset.name;
      benchmark::RegisterBenchmark(name.c_str(), run, name, op.value, preset)->UseRealTime();
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("isa", context().info().isa);
  benchmark::AddCustomContext("threads", std::to_string(context().info().threads));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
