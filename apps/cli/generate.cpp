// SPDX-License-Identifier: Apache-2.0
// fovea generate: answers prompts with a GGUF model.
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "commands.h"
#include "device.h"
#include "engine/chat_template.h"
#include "engine/engine.h"
#include "engine/prompt.h"
#include "engine/quantize.h"
#include "engine/utf8.h"
#include "interrupt.h"
#include "printer.h"
#include "progress.h"
#include "read_file.h"
#include "report.h"

namespace fovea::app {
namespace {

struct GenerateOptions {
  std::string model, prompt, prompts_file, system, isq, kv = "f16";
  bool has_prompt = false, has_system = false, chat = true, ignore_end = false, json = false;
  int64_t max_tokens = 128;
  EngineOptions engine;
  Sampling sampling;
  DeviceOptions device;
};

std::vector<std::string> read_prompts(const GenerateOptions& o) {
  if (o.has_prompt && !o.prompts_file.empty()) throw Error("give --prompt or --prompts, not both");
  if (!o.has_prompt && o.prompts_file.empty()) throw Error("give a prompt with --prompt or --prompts");
  if (o.has_prompt) return {o.prompt};
  std::istringstream in(read_file(o.prompts_file));
  std::vector<std::string> prompts;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw Error(o.prompts_file + ": holds no prompt");
  return prompts;
}

std::vector<Request> make_requests(const GenerateOptions& o, const Tokenizer& tokenizer, const Gguf& file,
                                   const std::vector<std::string>& prompts) {
  std::optional<ChatTemplate> chat;
  if (o.chat) chat = ChatTemplate::from_gguf(file);
  std::vector<Request> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request r;
    r.prompt = chat ? chat_prompt(tokenizer, *chat, o.has_system ? &o.system : nullptr, prompts[i])
                    : plain_prompt(tokenizer, prompts[i]);
    r.max_new_tokens = o.max_tokens;
    r.sampling = o.sampling;
    r.stops_at_end = !o.ignore_end;
    r.sampling.seed += i;  // equal prompts of one file get different draws
    requests.push_back(std::move(r));
  }
  return requests;
}

nlohmann::json logprobs_json(const std::vector<TokenLogprobs>& of_tokens) {
  nlohmann::json out = nlohmann::json::array();
  for (const TokenLogprobs& token : of_tokens) {
    nlohmann::json top = nlohmann::json::array();
    for (const auto& [id, logprob] : token.top) top.push_back({{"token", id}, {"logprob", logprob}});
    out.push_back({{"logprob", token.logprob}, {"top", top}});
  }
  return out;
}

nlohmann::json document(const GenerateOptions& o, const std::vector<std::string>& prompts, const Printer& printer,
                        const RunResult& result) {
  nlohmann::json answers = nlohmann::json::array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    answers.push_back({{"prompt", valid_utf8(prompts[i])},
                       {"text", printer.text(i)},
                       {"tokens", result.answers[i].tokens},
                       {"finish", name_of(result.answers[i].finish)},
                       {"shared_tokens", result.answers[i].shared_tokens}});
    if (o.sampling.logprobs > 0) answers.back()["logprobs"] = logprobs_json(result.answers[i].logprobs);
  }
  nlohmann::json out = stats_json(o.engine, result.stats);
  out["answers"] = answers;
  return out;
}

int run(GenerateOptions& o) {
  if (o.model.empty()) throw Error("give a model with --model");
  if (o.sampling.logprobs > 0 && !o.json) throw Error("--logprobs needs --json");
  if (o.has_system && !o.chat) throw Error("--system needs a chat template: it cannot go with --no-chat");
  const std::vector<std::string> prompts = read_prompts(o);
  o.engine.kv = parse_kv_format(o.kv);
  std::optional<int32_t> isq;
  if (!o.isq.empty()) isq = parse_quantized_type(o.isq);
  const Context context = o.device.open();
  Model model(Gguf::open(o.model));
  if (isq) model.quantize(context, *isq);
  const Tokenizer tokenizer(TokenizerSpec::from_gguf(model.file()));
  const std::vector<Request> requests = make_requests(o, tokenizer, model.file(), prompts);

  Printer printer(tokenizer, prompts, o.json ? nullptr : &std::cout);
  Progress progress;
  const std::atomic<bool>& interrupted = catch_interrupt();
  Hooks hooks;
  hooks.interrupt = &interrupted;
  hooks.on_token = [&](size_t request, Token token) {
    progress.clear();
    printer.token(request, token);
  };
  hooks.on_finish = [&](size_t request, const Answer&) { printer.finish(request); };
  hooks.on_prompt = [&](int64_t done, int64_t total) {
    if (done == total) return progress.clear();
    progress.say("reading prompts: " + std::to_string(done) + " of " + std::to_string(total) + " tokens");
  };
  const RunResult result = Engine(context, model, tokenizer, o.engine).run(requests, hooks);
  progress.clear();
  for (size_t i = 0; i < prompts.size(); ++i) printer.finish(i);  // those that were interrupted
  if (o.json) {
    std::cout << document(o, prompts, printer, result).dump(2) << std::endl;
  } else {
    std::cerr << '\n' << stats_table(o.engine, result.stats) << std::flush;
  }
  if (!std::cout) throw Error("the answers cannot be written to stdout");
  if (!interrupted) return 0;
  std::cerr << "fovea: interrupted" << std::endl;
  return kExitInterrupted;
}

}  // namespace

Command add_generate(CLI::App& app) {
  CLI::App* c = app.add_subcommand("generate", "Answer prompts with a GGUF model: text to stdout, figures to stderr");
  const auto o = std::make_shared<GenerateOptions>();
  const auto number = [&](const char* names, auto& value, auto low, auto high, const char* help) {
    return c->add_option(names, value, help)
        ->type_name("N")
        ->check(CLI::Range(low, high).description(""))
        ->check([](const std::string& text) { return text == "nan" || text == "-nan" ? "must be a number" : ""; })
        ->capture_default_str();
  };
  c->add_option("--model", o->model, "GGUF file of a model of the Llama family; required")->type_name("FILE");
  CLI::Option* prompt = c->add_option("--prompt", o->prompt, "the prompt");
  c->add_option("--prompts", o->prompts_file, "file with a prompt on each line; all are answered together")
      ->type_name("FILE");
  c->add_flag("--chat,!--no-chat", o->chat,
              "put prompts into the model's chat template (default), or give them as they are");
  CLI::Option* system = c->add_option("--system", o->system, "system prompt of the chat");
  number("-n,--max-tokens", o->max_tokens, 1, 1 << 30, "most new tokens per prompt");
  c->add_flag("--ignore-eos", o->ignore_end, "go on after a token that ends an answer: always --max-tokens tokens");
  number("--temperature", o->sampling.temperature, 0.0, 1e6, "0 = always the most likely token: then nothing is drawn");
  // What shapes a draw; without a temperature nothing is drawn.
  std::vector<CLI::Option*> of_draws;
  of_draws.push_back(number("--top-k", o->sampling.top_k, 0, 1 << 30, "draw from the k most likely tokens; 0 = all"));
  of_draws.push_back(
      number("--top-p", o->sampling.top_p, 0.0, 1.0, "draw from the fewest tokens of this total probability"));
  of_draws.push_back(number("--min-p", o->sampling.min_p, 0.0, 1.0,
                            "leave out tokens below this share of the best one's probability"));
  of_draws.push_back(c->add_option("--seed", o->sampling.seed, "of the draws; prompt i of a file uses seed + i")
                         ->type_name("N")
                         ->capture_default_str());
  number("--repetition-penalty", o->sampling.repetition_penalty, 1e-3, 1e3,
         "divides positive logits of tokens of prompt and answer, multiplies others; 1 = off");
  number("--presence-penalty", o->sampling.presence_penalty, -1e3, 1e3, "taken from logits of tokens of the answer");
  number("--frequency-penalty", o->sampling.frequency_penalty, -1e3, 1e3,
         "the same, times how often the token is in the answer");
  number("--logprobs", o->sampling.logprobs, 0, 1 << 20,
         "with --json: log-probability of each token, and this many of the likeliest; 0 = none");
  c->add_option("--isq", o->isq, "quantise the linear layers' weights at load: " + quantized_type_names())
      ->type_name("TYPE");
  c->add_option("--kv", o->kv, "how K and V are stored: " + kv_format_names(false))->capture_default_str();
  number("--page-size", o->engine.page_size, 1, 1 << 20, "tokens per page of the cache");
  number("--cache-tokens", o->engine.cache_tokens, 0, 1 << 30, "capacity of the cache; 0 = what the prompts need");
  number("--chunk", o->engine.chunk, 1, 1 << 20, "prompt tokens per step");
  c->add_flag("--invariant", o->engine.invariant, "bits of an answer never depend on the other prompts nor on --chunk");
  number("--batch", o->engine.max_sequences, 1, 1 << 16, "prompts in work at once; the others wait");
  o->device.add_to(*c);
  c->add_flag("--json", o->json, "print answers and figures as JSON when done");
  return {c, [o, prompt, system, of_draws] {
            for (const CLI::Option* option : of_draws) {
              if (o->sampling.temperature > 0 || option->count() == 0) continue;
              throw Error(option->get_name() + ": has no effect at --temperature 0");
            }
            o->has_prompt = prompt->count() > 0;
            o->has_system = system->count() > 0;
            return run(*o);
          }};
}

}  // namespace fovea::app
