// SPDX-License-Identifier: Apache-2.0
// The `fovea` command.
#include <exception>
#include <fovea/fovea.hpp>
#include <iostream>
#include <new>
#include <string>

#include "commands.h"

namespace {

// A message of several lines becomes one.
int fault(std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::cerr << "fovea: " << message << std::endl;
  return fovea::app::kExitFault;
}

int run(int argc, char** argv) {
  CLI::App app("Fovea: attention over paged KV caches and the operations around it, run on real models.", "fovea");
  app.set_version_flag("--version", std::string("fovea ") + fovea_version());
  app.require_subcommand(1);
  const fovea::app::Command commands[] = {fovea::app::add_info(app),       fovea::app::add_generate(app),
                                          fovea::app::add_perplexity(app), fovea::app::add_bench(app),
                                          fovea::app::add_compile(app),    fovea::app::add_tokenize(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    const bool names_command = argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty();
    const std::string what = names_command ? "unknown command '" + std::string(argv[1]) + "'" : e.what();
    return fault(what + " (see fovea --help)");
  }
  for (const fovea::app::Command& command : commands) {
    if (command.options->parsed()) return command.run();
  }
  return fault("no command given (see fovea --help)");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return fault("out of memory");
  } catch (const std::exception& e) {
    return fault(e.what());
  }
}
