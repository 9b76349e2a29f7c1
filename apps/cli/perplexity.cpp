// SPDX-License-Identifier: Apache-2.0
// fovea perplexity: what formats of the KV cache cost a model on a text.
#include "engine/perplexity.h"
#include "engine/quantize.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "device.h"
#include "interrupt.h"
#include "progress.h"
#include "read_file.h"
#include "table.h"

namespace fovea::app {
namespace {

struct MeasureOptions {
  std::string model, text, isq;
  std::vector<std::string> formats = {"f16"};
  PerplexityOptions perplexity;
  DeviceOptions device;
  bool json = false;
};

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2e", value);
  return text;
}

std::string with_error(const std::string& value, double error) {
  return std::isnan(error) ? value : value + " +- " + fixed(error, 4);
}

double rate(const FormatPerplexity& f) {
  return f.seconds > 0 ? static_cast<double>(f.tokens) / f.seconds : 0.0;
}

int64_t cache_bytes(const PerplexityResult& r) {
  int64_t bytes = 0;
  for (const FormatPerplexity& f : r.formats) bytes += f.cache_bytes;
  return bytes;
}

// "chunk 3 of 40, f16 12.31, fp8 12.35, 80 s left"
std::string progress_text(const MeasureOptions& o, int64_t done, int64_t total, std::span<const double> perplexities,
                          double seconds) {
  std::string text = std::to_string(100 * done / total) + " % of " + std::to_string(total) + " tokens";
  for (size_t i = 0; i < perplexities.size() && !std::isnan(perplexities[i]); ++i) {
    text += ", " + o.formats[i] + " " + fixed(perplexities[i], 3);
  }
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  return text + ", " + fixed(left, 0) + " s left";
}

std::string to_text(const MeasureOptions& o, const PerplexityResult& r, const DeviceInfo& device) {
  Table table;
  table.row({"kv", "perplexity", "delta", "KL mean", "KL p99", "same top-1", "bytes/token", "tokens/s"});
  for (const FormatPerplexity& f : r.formats) {
    const ScoreSummary& s = f.scores;
    std::vector<std::string> cells = {f.format.name(), with_error(fixed(s.perplexity, 4), s.perplexity_error)};
    if (&f == &r.formats.front()) {
      cells.insert(cells.end(), {"-", "-", "-", "-"});
    } else {
      cells.insert(cells.end(), {with_error((s.delta < 0 ? "" : "+") + fixed(s.delta, 4), s.delta_error),
                                 scientific(s.kl_mean), scientific(s.kl_p99), fixed(100 * s.agreement, 2) + " %"});
    }
    cells.insert(cells.end(), {fixed(f.cache_bytes_per_token, 0), fixed(rate(f), 1)});
    table.row(cells);
  }
  Table about;
  const Chunks& c = r.chunks;
  const std::string every = c.stride == c.tokens ? "" : ", one every " + std::to_string(c.stride);
  about.row({"text", o.text + ", " + std::to_string(r.text_tokens) + " tokens"});
  about.row({"scored", std::to_string(r.formats.front().scores.tokens) + " tokens of " + std::to_string(c.count) +
                           " chunks of " + std::to_string(c.tokens) + every});
  about.row({"memory", "caches " + megabytes(cache_bytes(r)) + ", activations " + megabytes(r.activation_bytes) +
                           ", logits " + megabytes(r.logit_bytes) + ", scores " + megabytes(r.score_bytes)});
  about.row({"machine", std::string(device.name) + ", " + device.isa + ", " + std::to_string(device.threads) +
                            (device.threads == 1 ? " thread" : " threads")});
  return table.text() + "\n" + about.text();
}

nlohmann::ordered_json format_json(const FormatPerplexity& f, bool first) {
  const ScoreSummary& s = f.scores;
  const auto compared = [&](double value) { return first ? nlohmann::ordered_json() : nlohmann::ordered_json(value); };
  return {{"kv", f.format.name()},
          {"perplexity", s.perplexity},
          {"perplexity_error", s.perplexity_error},
          {"delta", compared(s.delta)},
          {"delta_error", compared(s.delta_error)},
          {"kl_mean", compared(s.kl_mean)},
          {"kl_error", compared(s.kl_error)},
          {"kl_p99", compared(s.kl_p99)},
          {"kl_max", compared(s.kl_max)},
          {"same_top1", compared(s.agreement)},
          {"bytes_per_token", f.cache_bytes_per_token},
          {"cache_bytes", f.cache_bytes},
          {"tokens", f.tokens},
          {"seconds", f.seconds},
          {"tokens_per_s", rate(f)}};
}

std::string to_json(const MeasureOptions& o, const PerplexityResult& r, const DeviceInfo& device, bool bos) {
  nlohmann::ordered_json formats = nlohmann::ordered_json::array();
  for (const FormatPerplexity& f : r.formats) formats.push_back(format_json(f, &f == &r.formats.front()));
  const nlohmann::ordered_json document = {
      {"version", fovea_version()},
      {"machine", device.name},
      {"isa", device.isa},
      {"threads", device.threads},
      {"model", o.model},
      {"isq", o.isq.empty() ? nlohmann::json() : nlohmann::json(o.isq)},
      {"text", o.text},
      {"tokens", r.text_tokens},
      {"bos", bos},
      {"chunks", {{"count", r.chunks.count}, {"tokens", r.chunks.tokens}, {"stride", r.chunks.stride}}},
      {"scored", r.formats.front().scores.tokens},
      {"memory",
       {{"caches", cache_bytes(r)},
        {"activations", r.activation_bytes},
        {"logits", r.logit_bytes},
        {"scores", r.score_bytes}}},
      {"formats", formats}};
  return document.dump(2) + "\n";
}

int run(MeasureOptions& o) {
  if (o.model.empty()) throw Error("give a model with --model");
  if (o.text.empty()) throw Error("give a text with --text");
  for (const std::string& name : o.formats) o.perplexity.formats.push_back(parse_kv_format(name));
  const int32_t isq = o.isq.empty() ? 0 : parse_quantized_type(o.isq);
  const std::string text = read_file(o.text);
  const Context context = o.device.open();
  Model model(Gguf::open(o.model));
  if (!o.isq.empty()) model.quantize(context, isq);
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
  Progress progress;
  progress.say("splitting the text into tokens");
  const std::vector<Token> tokens = perplexity_tokens(tokenizer, text);

  const std::atomic<bool>& interrupted = catch_interrupt();
  const auto start = std::chrono::steady_clock::now();
  PerplexityHooks hooks;
  hooks.interrupt = &interrupted;
  hooks.on_step = [&](int64_t done, int64_t total, std::span<const double> perplexities) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    progress.say(progress_text(o, done, total, perplexities, seconds.count()));
  };
  const PerplexityResult result = measure_perplexity(context, model, tokenizer, tokens, o.perplexity, hooks);
  progress.clear();
  if (result.formats.front().scores.tokens > 0) {
    const DeviceInfo device = context.info();
    std::cout << (o.json ? to_json(o, result, device, tokenizer.adds_bos()) : to_text(o, result, device));
    if (!std::cout.flush()) throw Error("cannot write to the standard output");
  }
  if (!interrupted) return 0;
  std::cerr << "fovea: interrupted" << std::endl;
  return kExitInterrupted;
}

}  // namespace

Command add_perplexity(CLI::App& app) {
  CLI::App* c = app.add_subcommand("perplexity", "Measure what formats of the KV cache cost a model on a text");
  const auto o = std::make_shared<MeasureOptions>();
  const auto number = [&](const char* name, auto& value, auto low, auto high, const char* help) {
    c->add_option(name, value, help)
        ->type_name("N")
        ->check(CLI::Range(low, high).description(""))
        ->capture_default_str();
  };
  PerplexityOptions& p = o->perplexity;
  c->add_option("--model", o->model, "GGUF file of a model of the Llama family; required")->type_name("FILE");
  c->add_option("--text", o->text, "the text, UTF-8; required")->type_name("FILE");
  c->add_option("--isq", o->isq, "quantise the linear layers' weights at load: " + quantized_type_names())
      ->type_name("TYPE");
  c->add_option("--kv", o->formats, "formats, the others compared with the first: " + kv_format_names())
      ->type_name("A,B,..")
      ->delimiter(',')
      ->capture_default_str();
  number("--ctx", p.ctx, 2, 1 << 30, "tokens of a chunk, each computed with an empty cache");
  number("--chunks", p.chunks, 0, 1 << 30, "chunks at most; 0 = the whole text");
  number("--stride", p.stride, 0, 1 << 30,
         "tokens from chunk to chunk, as many scored at the end of each; 0 = side by side, second halves scored");
  number("--step", p.step, 1, 1 << 20, "tokens computed at once; bounds the memory of logits");
  number("--page-size", p.page_size, 1, 1 << 20, "tokens per page of the cache");
  o->device.add_to(*c);
  c->add_flag("--json", o->json, "print JSON");
  return {c, [o] { return run(*o); }};
}

}  // namespace fovea::app
