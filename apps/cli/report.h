// SPDX-License-Identifier: Apache-2.0
// The figures of a generation, as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/engine.h"

namespace fovea::app {

std::string stats_table(const EngineOptions& options, const RunStats& stats);
nlohmann::json stats_json(const EngineOptions& options, const RunStats& stats);

}  // namespace fovea::app
