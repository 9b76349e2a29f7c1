// SPDX-License-Identifier: Apache-2.0
// The real model that some tests need: FOVEA_TEST_MODEL, or models/ in the source tree. Absent: the test is skipped.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace fovea::app::test {

inline std::string model_path() {
  if (const char* path = std::getenv("FOVEA_TEST_MODEL")) return path;
  return std::string(FOVEA_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

inline bool have_model() {
  return std::filesystem::exists(model_path());
}

}  // namespace fovea::app::test

#define FOVEA_NEEDS_MODEL()                                                                          \
  if (!::fovea::app::test::have_model()) {                                                           \
    GTEST_SKIP() << "no model at " << ::fovea::app::test::model_path() << " (set FOVEA_TEST_MODEL)"; \
  }
