// SPDX-License-Identifier: Apache-2.0
// Attention cases: a short description becomes tensors, the oracle's answer and a check on every backend. All inputs
// that no row can see are NaN, page ids that no row needs are garbage, outputs and scratch begin as NaN, and every
// buffer ends at a guard page.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.hpp"
#include "oracle/attention64.h"
#include "support/backends.h"
#include "support/kv_cache.h"
#include "support/random.h"
#include "support/tensors.h"

namespace fovea::test {

struct AttentionCase {
  std::vector<int64_t> q_lens = {1};
  std::vector<KvSpec> kv = {{.lens = {16}}};  // segments; each one's lens and starts are its own
  int32_t heads = 1;
  int32_t q_dtype = FOVEA_F32;
  int32_t out_dtype = FOVEA_F32;
  // The scalar fields of the parameters: mask, windows, chunks, scales, softcap, split, invariance.
  fovea_attention_params options = {};
  bool lse = true;
  bool padded = false;    // Q of rank 4: [batch, tokens, heads, d]
  int64_t pad_front = 0;  // padded: rows before those in use, by q_starts
  int64_t pad_back = 0;   // padded: rows behind the longest
  bool alibi = false;
  bool alibi_batch = false;  // slopes [batch, heads]
  bool sinks = false;
  std::vector<int64_t> mask_lens = {};  // not empty: packed bits
  double bit_density = 0.5;
  int32_t index_dtype = FOVEA_I32;
  bool any_layout = false;  // Q, out and LSE of random strides
  bool poison = true;       // false: keys that no row sees hold ordinary numbers
  Values q_values = Values::normal;
  Values k_values = Values::normal;
  Values v_values = Values::normal;

  std::string text() const;
};

// Same lens for every sequence of a batch, and one segment.
AttentionCase simple_case(std::vector<int64_t> q_lens, std::vector<int64_t> kv_lens, int32_t heads, int32_t kv_heads,
                          int32_t d_k, int32_t d_v);

class AttentionProblem {
 public:
  AttentionProblem(const AttentionCase& c, Rng& rng);
  AttentionProblem(const AttentionProblem&) = delete;
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  fovea_attention_params params;
  std::vector<fovea_kv> kvs;  // what params.kv points at
  std::vector<std::unique_ptr<KvCache>> caches;
  TensorBox q, out, lse, cu_seqlens_q, q_lens, q_starts, mask_bits, mask_lens, alibi_slopes, sinks;

  const oracle::Attention64& wanted();
  void poison_outputs();
  bool outputs_untouched();
  // Compares what a run has left in the outputs.
  ::testing::AssertionResult right();
  std::vector<std::byte> result_bits() const;

 private:
  void make_queries(const AttentionCase& c, Rng& rng);
  void make_options(const AttentionCase& c, Rng& rng);
  void make_bits(const AttentionCase& c, Rng& rng);
  // Fully masked rows must be exactly zero and exactly -inf, or the sink.
  ::testing::AssertionResult empty_rows_exact();
  std::unique_ptr<oracle::Attention64> wanted_;
};

// Runs the problem on every backend and compares; false if one failed.
bool check_attention(AttentionProblem& problem);
// Builds and checks; the failing case is printed. Where there are devices, the narrow forms too.
bool check_attention(const AttentionCase& c, Rng& rng);
// Forms of a case for tensor cores, which take a cache of fp8 or of one 16-bit type: the cache in the type of Q, or in
// f16 and bf16 by turns; and Q of f32 in that type as well. Nothing where there are no devices and no
// FOVEA_TEST_NARROW.
std::vector<AttentionCase> narrow_forms(const AttentionCase& c);
// The same, and the option under test must matter: with the option undone by `without`, on the same memory, the wanted
// result lies more than 100 bounds away.
void check_option(const AttentionCase& c, const std::function<void(fovea_attention_params&)>& without);

}  // namespace fovea::test
