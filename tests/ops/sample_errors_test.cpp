// SPDX-License-Identifier: Apache-2.0
// What bad penalties, biases, masks and outputs of sample answer; nothing may be written.
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/fovea.hpp"
#include "support/backends.h"
#include "support/tensors.h"

namespace {

using namespace fovea::test;
using fovea::Result;
using fovea::SampleParams;

class SampleEditErrors : public ::testing::Test {
 protected:
  // A greedy call of 3 rows with everything that a greedy call may have.
  SampleParams whole() {
    return {.logits = logits,
            .tokens = tokens,
            .repetition_penalty = 1.5f,
            .history_tokens = history,
            .history_indptr = ends,
            .history_prompt_lens = prompt,
            .bias_ids = ids,
            .bias_values = values,
            .bias_indptr = bias_ends,
            .mask_bits = bits,
            .logprobs = logprobs,
            .top_ids = top_ids,
            .top_logprobs = top_logprobs,
            .probs = probs};
  }
  template <class Change>
  std::string message(const Change& change) {
    SampleParams p = whole();
    change(p);
    const Result result = run(backends()[0].context, p);
    EXPECT_NE(result.code, FOVEA_OK);
    for (TensorBox* out : {&tokens, &logprobs, &top_ids, &top_logprobs, &probs}) {
      EXPECT_TRUE(out->memory().all(kPoison));
    }
    return result.message;
  }
  TensorBox logits{FOVEA_F32, {3, 40}}, tokens{FOVEA_I32, {3}}, logprobs{FOVEA_F32, {3}}, top_ids{FOVEA_I32, {3, 2}},
      top_logprobs{FOVEA_F32, {3, 2}}, probs{FOVEA_F32, {3, 40}}, bits{FOVEA_U32, {3, 2}};
  TensorBox history = indices({1, 2, 3, 39}), ends = indices({0, 2, 2, 4}), prompt = indices({2, 0, 1}),
            ones = floats({1, 1, 1});
  TensorBox ids = indices({0, 39}), values = floats({1, -1}), bias_ends = indices({0, 1, 1, 2});
  const std::string unit = ": must be in [0, 40)";
};

TEST_F(SampleEditErrors, TheWholeCallIsGood) {
  logits.fill([](int64_t i) { return static_cast<double>(i % 7); });
  EXPECT_TRUE(run(backends()[0].context, whole()));
}

TEST_F(SampleEditErrors, Scalars) {
  EXPECT_EQ(message([](auto& p) { p.repetition_penalty = 0; }), "repetition_penalty is 0: must be above 0 and finite");
  EXPECT_EQ(message([](auto& p) { p.repetition_penalty = HUGE_VALF; }),
            "repetition_penalty is inf: must be above 0 and finite");
  EXPECT_EQ(message([](auto& p) { p.presence_penalty = NAN; }), "presence_penalty is nan: must be finite");
  EXPECT_EQ(message([](auto& p) { p.frequency_penalty = -HUGE_VALF; }), "frequency_penalty is -inf: must be finite");
  EXPECT_EQ(message([](auto& p) { p.logprobs_kind = 2; }),
            "logprobs_kind is 2: must be one of enum fovea_logprobs_kind");
}

// Nothing is accepted and ignored.
TEST_F(SampleEditErrors, WhatWouldHaveNoEffect) {
  EXPECT_EQ(message([](auto& p) { p.repetition_penalty = 1; }),
            "history_tokens is given: has no effect without a penalty");
  EXPECT_EQ(message([](auto& p) { p.history_tokens = {}; }), "history_tokens is absent: must be one of i32, i64");
  EXPECT_EQ(message([&](auto& p) { p.repetition_penalties = ones; }),
            "repetition_penalty is 1.5: repetition_penalties is given");
  EXPECT_EQ(message([](auto& p) { p.bias_ids = {}; }), "bias_values is given: needs bias_ids");
  EXPECT_EQ(message([&](auto& p) { p.mask_bits = {}, p.mask_rows = prompt; }), "mask_rows is given: needs mask_bits");
  EXPECT_EQ(message([](auto& p) { p.top_ids = {}; }), "top_logprobs is given: needs top_ids");
  EXPECT_EQ(message([](auto& p) {
              p.logprobs = p.top_ids = p.top_logprobs = {};
              p.logprobs_kind = FOVEA_LOGPROBS_PROCESSED;
            }),
            "logprobs_kind is 1: has no effect without logprobs or top_ids");
}

TEST_F(SampleEditErrors, Shapes) {
  EXPECT_EQ(message([](auto& p) { p.history_indptr.shape[0] = 3; }),
            "history_indptr.shape[0] is 3: must be 1 above 3 (logits.shape[0]), or give history_rows");
  EXPECT_EQ(message([](auto& p) { p.history_indptr.shape[0] = 0; }),
            "history_indptr is empty: must have one entry more than there are lists");
  EXPECT_EQ(message([](auto& p) { p.history_prompt_lens.shape[0] = 2; }),
            "history_prompt_lens.shape[0] is 2: must be 3 (history_indptr.shape[0] - 1)");
  EXPECT_EQ(message([](auto& p) { p.bias_values.shape[0] = 1; }),
            "bias_values.shape[0] is 1: must be 2 (bias_ids.shape[0])");
  EXPECT_EQ(message([](auto& p) { p.mask_bits.shape[1] = 1; }),
            "mask_bits.shape[1] is 1: must be at least 2, a bit for each token");
  EXPECT_EQ(message([](auto& p) { p.mask_bits.shape[0] = 2; }),
            "mask_bits.shape[0] is 2: must be 3 (logits.shape[0]), or give mask_rows");
  EXPECT_EQ(message([](auto& p) { p.top_ids.shape[1] = p.top_logprobs.shape[1] = 41; }),
            "top_ids.shape[1] is 41: must be at most 40 (logits.shape[1])");
  EXPECT_EQ(message([](auto& p) { p.top_logprobs.shape[1] = 1; }),
            "top_logprobs.shape is [3, 1]: must be [3, 2] (top_ids)");
  EXPECT_EQ(message([](auto& p) { p.probs.dtype = FOVEA_BF16; }), "probs is bf16: must be f32");
}

TEST_F(SampleEditErrors, Values) {
  const auto with = [](const TensorBox& box, int64_t i, double value) {
    std::vector<int64_t> all;
    for (int64_t j = 0; j < box.size(); ++j) all.push_back(static_cast<int64_t>(j == i ? value : box.get(j)));
    return indices(all);
  };
  const auto expect = [&](fovea_tensor SampleParams::*field, const TensorBox& box, const std::string& text) {
    EXPECT_EQ(message([&](auto& p) { p.*field = box; }), text);
  };
  expect(&SampleParams::history_tokens, with(history, 3, 40), "history_tokens[3] is 40" + unit);
  expect(&SampleParams::history_tokens, with(history, 0, -1), "history_tokens[0] is -1" + unit);
  expect(&SampleParams::history_indptr, with(ends, 0, -1), "history_indptr[0] is -1: must not be negative");
  expect(&SampleParams::history_indptr, with(ends, 2, 1), "history_indptr[2] is 1: must be at least 2, the one before");
  expect(&SampleParams::history_indptr, with(ends, 3, 5),
         "history_indptr[3] is 5: must be at most 4 (history_tokens.shape[0])");
  expect(&SampleParams::history_prompt_lens, with(prompt, 2, 3),
         "history_prompt_lens[2] is 3: must be in [0, 2], the length of its list");
  expect(&SampleParams::history_rows, indices({0, -2, 1}), "history_rows[1] is -2: must be -1 or in [0, 3)");
  expect(&SampleParams::bias_rows, indices({0, 3, 1}), "bias_rows[1] is 3: must be -1 or in [0, 3)");
  expect(&SampleParams::bias_ids, with(ids, 1, 40), "bias_ids[1] is 40" + unit);
  expect(&SampleParams::bias_values, floats({1, NAN}), "bias_values[1] is nan: must be a number");
  expect(&SampleParams::mask_rows, indices({0, -1, 3}), "mask_rows[2] is 3: must be -1 or in [0, 3)");
  const TensorBox low = floats({1, 2, -1}), infinite = floats({0, INFINITY, 0}), nan = floats({NAN, 0, 0});
  EXPECT_EQ(message([&](auto& p) { p.repetition_penalty = 1, p.repetition_penalties = low; }),
            "repetition_penalties[2] is -1: must be above 0 and finite");
  EXPECT_EQ(message([&](auto& p) { p.presence_penalties = infinite; }), "presence_penalties[1] is inf: must be finite");
  EXPECT_EQ(message([&](auto& p) { p.frequency_penalties = nan; }), "frequency_penalties[0] is nan: must be finite");
}

// What no row names may hold anything, and a row without penalties looks at no history.
TEST_F(SampleEditErrors, WhatNobodyNamesIsNotRead) {
  logits.fill([](int64_t i) { return static_cast<double>(i % 7); });
  SampleParams p = whole();
  const TensorBox penalties = floats({1, 2, 1}), far = indices({-9, 0, -9}), bad = indices({99, 2, 3, -4}),
                  parts = indices({1, 3});
  p.repetition_penalty = 1;
  p.repetition_penalties = penalties;
  p.history_rows = far;
  p.history_tokens = bad;
  p.history_indptr = parts;
  p.history_prompt_lens = {};
  const Result result = run(backends()[0].context, p);
  EXPECT_TRUE(result) << result.message;
}

}  // namespace
