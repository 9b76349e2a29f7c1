// SPDX-License-Identifier: Apache-2.0
#include "api/cases.h"

#include <cstddef>
#include <cstring>
#include <new>

namespace fovea::test {

HostStruct::HostStruct(size_t bytes, std::vector<size_t> pointer_offsets)
    : memory(new std::byte[bytes + (1 << 16) + 8]()), size(bytes), pointers(std::move(pointer_offsets)) {}

namespace {

// Byte offsets of the host pointers in each parameter struct.
std::vector<size_t> pointers_of(int32_t op) {
  switch (op) {
    case FOVEA_OP_ATTENTION:
      return {offsetof(fovea_attention_params, kv), offsetof(fovea_attention_params, kernel)};
    case FOVEA_OP_MERGE_STATES:
      return {offsetof(fovea_merge_states_params, outs), offsetof(fovea_merge_states_params, lses)};
    case FOVEA_OP_KV_APPEND:
      return {offsetof(fovea_kv_append_params, kv), offsetof(fovea_kv_append_params, rope)};
    case FOVEA_OP_KV_COPY:
      return {offsetof(fovea_kv_copy_params, src), offsetof(fovea_kv_copy_params, dst)};
    case FOVEA_OP_ROPE:
      return {offsetof(fovea_rope_params, config)};
    case FOVEA_OP_VERIFY:
      return {offsetof(fovea_verify_params, target)};
    default:
      return {};
  }
}

const std::vector<size_t> kRopePointers = {offsetof(fovea_rope_config, short_factor),
                                           offsetof(fovea_rope_config, long_factor)};

bool everything(int64_t, int64_t) {
  return true;
}

}  // namespace

OpCase::OpCase(const c_operation& operation) : operation_(&operation) {
  structs_.emplace_back(operation.size, pointers_of(operation.op));
  switch (operation.op) {
#define FOVEA_OP(name, Name, NAME, value, text)    \
  case FOVEA_OP_##NAME:                            \
    fill(*new (params()) fovea_##name##_params()); \
    break;
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      break;
  }
}

std::vector<std::byte> OpCase::outputs() const {
  std::vector<std::byte> all;
  for (const TensorBox& t : outputs_) {
    const std::vector<std::byte> bits = t.bits();
    all.insert(all.end(), bits.begin(), bits.end());
  }
  for (const KvCache& c : caches_) {
    if (!cache_is_output_) break;
    const std::vector<std::byte> bits = c.bytes();
    all.insert(all.end(), bits.begin(), bits.end());
  }
  return all;
}

const fovea_tensor& OpCase::normal(std::vector<int64_t> shape, int32_t dtype) {
  inputs_.emplace_back(dtype, std::move(shape));
  inputs_.back().fill([&](int64_t) { return rng_.normal(); });
  return inputs_.back();
}

const fovea_tensor& OpCase::index(const std::vector<int64_t>& values, std::vector<int64_t> shape) {
  inputs_.push_back(indices(values, FOVEA_I32, std::move(shape)));
  return inputs_.back();
}

const fovea_tensor& OpCase::output(std::vector<int64_t> shape, int32_t dtype) {
  outputs_.emplace_back(dtype, std::move(shape));
  return outputs_.back();
}

template <class T>
T* OpCase::host(const T& value, size_t count, std::vector<size_t> pointers) {
  structs_.emplace_back(count * sizeof(T), std::move(pointers));
  T* first = reinterpret_cast<T*>(structs_.back().memory.get());
  for (size_t i = 0; i < count; ++i) new (first + i) T(value);
  return first;
}

const KvCache& OpCase::cache(const KvSpec& spec) {
  caches_.emplace_back(spec, rng_, everything);
  test::fill(caches_.back(), spec, rng_, Values::normal, Values::normal, everything);
  return caches_.back();
}

void OpCase::fill(fovea_attention_params& p) {
  const KvSpec spec = {.lens = {9, 20}, .heads = 2, .d_k = 32, .d_v = 32, .page_size = 16};
  p.mask = FOVEA_MASK_CAUSAL;
  p.q = normal({6, 4, 32});
  p.out = output({6, 4, 32});
  p.lse = output({6, 4});
  p.cu_seqlens_q = index({0, 2, 6});
  p.kv = host(cache(spec).kv(), FOVEA_MAX_SEGMENTS);
}

void OpCase::fill(fovea_merge_states_params& p) {
  p.parts = 2;
  fovea_tensor* outs = host(fovea_tensor{}, FOVEA_MAX_PARTS);
  fovea_tensor* lses = host(fovea_tensor{}, FOVEA_MAX_PARTS);
  for (int i = 0; i < 2; ++i) {
    outs[i] = normal({5, 3, 24});
    lses[i] = normal({5, 3});
  }
  p.outs = outs;
  p.lses = lses;
  p.out = output({5, 3, 24});
  p.lse = output({5, 3});
}

void OpCase::fill(fovea_kv_append_params& p) {
  const KvSpec spec = {.lens = {16, 16}, .heads = 2, .d_k = 32, .d_v = 32, .page_size = 16};
  cache_is_output_ = true;
  p.k = normal({5, 2, 32});
  p.v = normal({5, 2, 32});
  p.kv = host(cache(spec).kv(), 1);
  p.slot_mapping = index({0, 5, -1, 17, 30});
  p.q = normal({5, 4, 32});
  p.q_out = output({5, 4, 32});
  p.k_norm_weight = normal({32});
  p.rope = host(fovea_rope_config{}, 1, kRopePointers);
  p.positions = index({0, 5, 2, 1, 14});
}

void OpCase::fill(fovea_kv_copy_params& p) {
  const KvSpec spec = {.lens = {16, 16}, .heads = 2, .d_k = 32, .d_v = 32, .page_size = 16};
  cache_is_output_ = true;
  p.src = p.dst = host(cache(spec).kv(), 1);
  p.copies = index({0, 1}, {1, 2});
}

void OpCase::fill(fovea_rope_params& p) {
  p.x = normal({7, 2, 24});
  p.out = output({7, 2, 24});
  p.positions = index({0, 1, 2, 3, 100, 5, 6});
  p.config = host(fovea_rope_config{}, 1, kRopePointers);
}

void OpCase::fill(fovea_norm_params& p) {
  p.x = normal({300, 131});
  p.out = output({300, 131});
  p.weight = normal({131});
  p.residual = normal({300, 131}, FOVEA_BF16);
  p.residual_out = output({300, 131}, FOVEA_BF16);
  p.gate = normal({300, 131});
  p.gate_kind = FOVEA_GATE_SILU;
  p.weight_offset = 1;
}

void OpCase::fill(fovea_glu_params& p) {
  p.kind = FOVEA_GLU_CLAMPED_SWIGLU;
  p.gate = normal({9, 1030});
  p.up = normal({9, 1030}, FOVEA_F16);
  p.out = output({9, 1030});
}

void OpCase::fill(fovea_matmul_params& p) {
  p.x = normal({53, 192}, FOVEA_F16);
  p.w = normal({71, 192}, FOVEA_BF16);
  p.bias = normal({71});
  p.out = output({53, 71});
}

void OpCase::fill(fovea_embed_params& p) {
  p.scale = 3;
  p.ids = index({3, 0, 19, 7});
  p.table = normal({20, 50}, FOVEA_F16);
  p.out = output({4, 50});
}

// What shapes the draws of `requests` over `rows` rows of 300 logits.
void OpCase::fill_target(fovea_sample_params& p, int64_t requests, int64_t rows) {
  p.top_k = 20;
  p.temperature = 0.75f;
  p.top_p = 0.875f;
  p.seed = 5;
  p.logits = normal({rows, 300});
  std::vector<int64_t> positions, history, ends = {0};
  for (int64_t i = 0; i < requests; ++i) {
    positions.push_back(i * 3);
    history.insert(history.end(), {i, 2 * i, i});
    ends.push_back(static_cast<int64_t>(history.size()));
  }
  p.positions = index(positions);
  p.repetition_penalty = 1.25f;
  p.frequency_penalty = 0.5f;
  p.history_tokens = index(history);
  p.history_indptr = index(ends);
  p.history_prompt_lens = index(std::vector<int64_t>(static_cast<size_t>(requests), 1));
  p.bias_ids = index({7, 299});
  p.bias_values = normal({2});
  p.bias_indptr = index({0, 2});
  p.bias_rows = index(std::vector<int64_t>(static_cast<size_t>(requests), 0));
  inputs_.push_back(indices(std::vector<int64_t>(10, 0x7EEEEEEE), FOVEA_U32, {1, 10}));
  p.mask_bits = inputs_.back();
  p.mask_rows = index(std::vector<int64_t>(static_cast<size_t>(rows), 0));
}

void OpCase::fill(fovea_sample_params& p) {
  fill_target(p, 21, 21);
  p.tokens = output({21}, FOVEA_I32);
  p.logprobs = output({21});
  p.top_ids = output({21, 5}, FOVEA_I64);
  p.top_logprobs = output({21, 5});
  p.probs = output({21, 300});
  p.logprobs_kind = FOVEA_LOGPROBS_PROCESSED;
}

void OpCase::fill(fovea_verify_params& p) {
  fovea_sample_params* target = host(fovea_sample_params{}, 1);
  fill_target(*target, 3, 8);
  p.target = target;
  p.cu_nodes = index({0, 4, 5, 8});
  p.draft_tokens = index({0, 5, 6, 7, 0, 0, 9, 11});
  p.parents = index({0, 0, 0, 1, 0, 0, 0, 1});
  inputs_.emplace_back(FOVEA_F32, std::vector<int64_t>{2, 300});
  inputs_.back().fill([&](int64_t) { return rng_.uniform(); });
  p.draft_probs = inputs_.back();
  p.draft_rows = index({0, 0, 0, 1, 0, 0, 1, -1});
  p.accepted = output({3}, FOVEA_I32);
  p.tokens = output({3, 3}, FOVEA_I32);
  p.nodes = output({3, 3}, FOVEA_I64);
}

void OpCase::fill(fovea_quantize_params& p) {
  p.x = normal({300, 96}, FOVEA_BF16);
  p.out = fovea::tensor(output({300, 3 * 34}, FOVEA_U8).data, FOVEA_Q8_0, {300, 96});
}

}  // namespace fovea::test
