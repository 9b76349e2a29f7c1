// SPDX-License-Identifier: Apache-2.0
// The subcommands of `fovea`. Each adds its options to the command line and returns what runs when it was chosen.
// Faults throw; main turns them into one line and exit code 2.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace fovea::app {

inline constexpr int kExitFault = 2;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells have it

struct Command {
  CLI::App* options;
  std::function<int()> run;  // returns the exit code
};

Command add_info(CLI::App& app);
Command add_generate(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_bench_model(CLI::App& bench);
Command add_compile(CLI::App& app);
Command add_perplexity(CLI::App& app);
Command add_tokenize(CLI::App& app);

}  // namespace fovea::app
