// SPDX-License-Identifier: Apache-2.0
// A config.json from a stranger as `fovea compile` reads it, and the calls that follow from it, asked for on the CPU.
#include <string>

#include "bench/case.h"
#include "deploy/deployment.h"
#include "engine/error.h"
#include "fuzz/input.h"

namespace fovea::fuzz {
namespace {

using namespace fovea::app;

void check(const ModelAttention& model) {
  demand(!model.layers.empty(), "a model has layers");
  for (const AttentionLayers& l : model.layers) {
    demand(l.heads > 0 && l.kv_heads > 0 && l.heads % l.kv_heads == 0, "query heads share kv heads evenly");
    demand(l.d_k > 0 && l.d_v > 0, "heads have dims");
    demand(l.window >= 0 && l.chunk >= 0, "windows and chunks are sizes");
  }
  demand(model.rotary_dim >= 0 && model.rotary_dim <= model.layers.front().d_k, "rotated dims are dims of K");
}

void run(Bytes data) {
  static const Context context({.threads = 1});
  const std::string text(reinterpret_cast<const char*>(data.data()), data.size());
  try {
    const ModelAttention model = parse_config(text, "config.json");
    check(model);
    Deployment deployment;
    deployment.codecs = {FOVEA_CODEC_BF16, FOVEA_CODEC_FP8};
    const std::vector<DeployedCase> cases = cases_of(model, deployment);
    demand(cases.size() < 10000, "a deployment has a bounded number of cases");
    for (const DeployedCase& c : cases) {
      try {
        bench::plan_case(context, c.op, c.shape);
      } catch (const app::Error&) {
      } catch (const fovea::Error&) {
      }
    }
  } catch (const app::Error&) {
  }
}

const Register registered({"model_config", run});

}  // namespace
}  // namespace fovea::fuzz
