// SPDX-License-Identifier: Apache-2.0
// `fovea bench OP`.
#pragma once

#include <iosfwd>

namespace CLI {
class App;
}

namespace fovea::bench {

// Adds the subcommand `bench` with one subcommand for each operation. When the parse reaches one, it runs and writes
// its result to `out`. Throws app::Error or fovea::Error for options that cannot be run.
void add_bench_command(CLI::App& app, std::ostream& out);

}  // namespace fovea::bench
