// SPDX-License-Identifier: Apache-2.0
// fovea bench model: how fast a GGUF model reads prompts and generates.
#include <atomic>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "bench/measure.h"
#include "commands.h"
#include "device.h"
#include "engine/engine.h"
#include "engine/quantize.h"
#include "interrupt.h"
#include "progress.h"
#include "table.h"

namespace fovea::app {
namespace {

struct BenchModelOptions {
  std::string model, isq, kv = "f16";
  std::vector<int64_t> prefill = {512}, context = {128};
  int64_t decode = 64, batch = 1, samples = 5;
  uint64_t seed = 0;
  EngineOptions engine;
  DeviceOptions device;
  bool json = false;
};

// One line of the result.
struct Phase {
  bool prefill;
  int64_t tokens;                  // of each sequence: read, or generated
  int64_t context;                 // tokens in the cache when the phase begins
  std::vector<double> rates = {};  // tokens/s of each sample
};

std::vector<Phase> phases_of(const BenchModelOptions& o) {
  std::vector<Phase> phases;
  for (const int64_t tokens : o.prefill) {
    if (tokens > 0) phases.push_back({.prefill = true, .tokens = tokens, .context = 0});
  }
  for (const int64_t context : o.context) {
    if (o.decode > 0) phases.push_back({.prefill = false, .tokens = o.decode, .context = context});
  }
  if (phases.empty()) throw Error("--prefill and --decode are 0: nothing is left to time");
  return phases;
}

// Before anything is computed: the phases run one after the other, for minutes.
void check(const BenchModelOptions& o, const std::vector<Phase>& phases, int64_t limit) {
  for (const Phase& phase : phases) {
    if (phase.context + phase.tokens <= limit) continue;
    const std::string tokens = std::to_string(phase.tokens);
    throw Error((phase.prefill ? "--prefill is " + tokens
                               : "--context is " + std::to_string(phase.context) + " and --decode is " + tokens) +
                ": the context of " + o.model + " is " + std::to_string(limit) + " tokens");
  }
}

class Runner {
 public:
  Runner(const Context& context, const Model& model, const Tokenizer& tokenizer, const BenchModelOptions& o)
      : vocab_(model.config().vocab), batch_(o.batch), seed_(o.seed), engine_(context, model, tokenizer, o.engine) {
    hooks_.interrupt = &catch_interrupt();
  }

  bool interrupted() const { return hooks_.interrupt->load(); }

  // Tokens per second of one run; nothing where it was interrupted.
  std::optional<double> operator()(const Phase& phase) {
    std::vector<Request> requests(static_cast<size_t>(batch_));
    std::mt19937_64 random(seed_);
    for (Request& r : requests) {
      // The last token of the prompt is fed in prefill, and brings the first of those that decode feeds.
      r.prompt.resize(static_cast<size_t>(phase.prefill ? phase.tokens : phase.context));
      for (Token& token : r.prompt) token = static_cast<Token>(random() % static_cast<uint64_t>(vocab_));
      r.max_new_tokens = phase.prefill ? 1 : phase.tokens + 1;
      r.stops_at_end = false;
    }
    const RunStats stats = engine_.run(requests, hooks_).stats;
    if (interrupted()) return {};
    return phase.prefill ? static_cast<double>(stats.prefill_tokens) / stats.prefill_seconds
                         : static_cast<double>(stats.decode_tokens) / stats.decode_seconds;
  }

 private:
  int64_t vocab_, batch_;
  uint64_t seed_;
  Engine engine_;
  Hooks hooks_;
};

struct Rates {
  double median, best;
};

Rates rates_of(const Phase& phase) {
  std::vector<double> seconds;  // of a token
  for (const double rate : phase.rates) seconds.push_back(1 / rate);
  const bench::Timing timing = bench::summarize(std::move(seconds), 1);
  return {.median = 1 / timing.median, .best = 1 / timing.min};
}

std::string to_text(const BenchModelOptions& o, const std::vector<Phase>& phases, const Model& model,
                    const DeviceInfo& device) {
  Table table;
  table.row({"phase", "tokens", "context", "tokens/s: median", "best"});
  for (const Phase& phase : phases) {
    const Rates rates = rates_of(phase);
    table.row({phase.prefill ? "prefill" : "decode", std::to_string(o.batch) + " x " + std::to_string(phase.tokens),
               std::to_string(phase.context), fixed(rates.median, 1), fixed(rates.best, 1)});
  }
  std::string weights;
  for (const WeightUse& use : model.weights()) {
    weights += (weights.empty() ? "" : ", ") + std::string(fovea_dtype_name(use.dtype)) + " " +
               fixed(static_cast<double>(use.bytes) / 1e6, 1) + " MB";
  }
  Table about;
  about.row({"model", o.model + ": " + weights});
  about.row({"run", std::to_string(o.samples) + (o.samples == 1 ? " sample" : " samples") + ", kv " + o.kv +
                        ", steps of up to " + std::to_string(o.engine.chunk) + " prompt tokens"});
  about.row({"machine", std::string(device.name) + ", " + device.isa + ", " + std::to_string(device.threads) +
                            (device.threads == 1 ? " thread" : " threads")});
  return table.text() + "\n" + about.text();
}

std::string to_json(const BenchModelOptions& o, const std::vector<Phase>& phases, const Model& model,
                    const DeviceInfo& device) {
  nlohmann::ordered_json weights = nlohmann::ordered_json::array(), rows = nlohmann::ordered_json::array();
  for (const WeightUse& use : model.weights()) {
    weights.push_back({{"type", fovea_dtype_name(use.dtype)}, {"tensors", use.tensors}, {"bytes", use.bytes}});
  }
  for (const Phase& phase : phases) {
    const Rates rates = rates_of(phase);
    rows.push_back({{"phase", phase.prefill ? "prefill" : "decode"},
                    {"tokens", phase.tokens},
                    {"context", phase.context},
                    {"tokens_per_s", {{"median", rates.median}, {"best", rates.best}, {"samples", phase.rates}}}});
  }
  const nlohmann::ordered_json document = {
      {"version", fovea_version()},
      {"machine", device.name},
      {"isa", device.isa},
      {"threads", device.threads},
      {"model", o.model},
      {"isq", o.isq.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(o.isq)},
      {"weights", weights},
      {"kv", o.kv},
      {"page_size", o.engine.page_size},
      {"chunk", o.engine.chunk},
      {"batch", o.batch},
      {"seed", o.seed},
      {"phases", rows}};
  return document.dump(2) + "\n";
}

int run(BenchModelOptions& o) {
  if (o.model.empty()) throw Error("give a model with --model");
  std::vector<Phase> phases = phases_of(o);
  o.engine.kv = parse_kv_format(o.kv);
  o.engine.max_sequences = o.batch;
  o.engine.share_prefixes = false;
  std::optional<int32_t> isq;
  if (!o.isq.empty()) isq = parse_quantized_type(o.isq);
  const Context context = o.device.open();
  Model model(Gguf::open(o.model));
  check(o, phases, model.config().context);
  if (isq) model.quantize(context, *isq);
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
  Runner runner(context, model, tokenizer, o);
  Progress progress;
  for (int64_t sample = -1; sample < o.samples; ++sample) {  // the first one warms up
    for (Phase& phase : phases) {
      progress.say(
          (sample < 0 ? "warming up" : "sample " + std::to_string(sample + 1) + " of " + std::to_string(o.samples)) +
          (phase.prefill ? ": prefill of " : ": decode of ") + std::to_string(phase.tokens));
      const std::optional<double> rate = runner(phase);
      if (!rate) {
        progress.clear();
        std::cerr << "fovea: interrupted" << std::endl;
        return kExitInterrupted;
      }
      if (sample >= 0) phase.rates.push_back(*rate);
    }
  }
  progress.clear();
  const DeviceInfo device = context.info();
  std::cout << (o.json ? to_json(o, phases, model, device) : to_text(o, phases, model, device));
  if (!std::cout.flush()) throw Error("cannot write to the standard output");
  return 0;
}

}  // namespace

Command add_bench_model(CLI::App& bench) {
  CLI::App* c = bench.add_subcommand("model", "how fast a GGUF model reads prompts and generates, on random tokens");
  const auto o = std::make_shared<BenchModelOptions>();
  const auto number = [&](const char* name, auto& value, auto low, auto high, const char* help) {
    return c->add_option(name, value, help)
        ->type_name("N")
        ->check(CLI::Range(low, high).description(""))
        ->capture_default_str();
  };
  c->add_option("--model", o->model, "GGUF file of a model of the Llama family; required")->type_name("FILE");
  number("--prefill", o->prefill, 0, 1 << 30, "tokens of the prompts that are read; 0 = no such phase")
      ->type_name("N,N,..")
      ->delimiter(',');
  number("--decode", o->decode, 0, 1 << 30, "tokens generated after each context; 0 = no such phase");
  number("--context", o->context, 1, 1 << 30, "tokens in the cache when generating begins")
      ->type_name("N,N,..")
      ->delimiter(',');
  number("--batch", o->batch, 1, 1 << 16, "sequences at once");
  number("--samples", o->samples, 1, 100000, "runs of each phase, in turn, after one that is not counted");
  c->add_option("--seed", o->seed, "of the random tokens")->type_name("N")->capture_default_str();
  c->add_option("--isq", o->isq, "quantise the linear layers' weights at load: " + quantized_type_names())
      ->type_name("TYPE");
  c->add_option("--kv", o->kv, "how K and V are stored: " + kv_format_names(false))->capture_default_str();
  number("--page-size", o->engine.page_size, 1, 1 << 20, "tokens per page of the cache");
  number("--chunk", o->engine.chunk, 1, 1 << 20, "prompt tokens per step");
  o->device.add_to(*c);
  c->add_flag("--json", o->json, "print JSON");
  return {c, [o] { return run(*o); }};
}

}  // namespace fovea::app
