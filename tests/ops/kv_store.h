// SPDX-License-Identifier: Apache-2.0
// A cache of guarded memory for the tests of kv_append and kv_copy (one tensor per stream, all poison),
// and tokens to append to it.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fovea/fovea.hpp"
#include "oracle/numbers.h"
#include "support/tensors.h"

namespace fovea::test {

struct StoreForm {
  int32_t k_codec = FOVEA_CODEC_BF16, v_codec = FOVEA_CODEC_BF16;
  int32_t k_scale = FOVEA_SCALE_NONE, v_scale = FOVEA_SCALE_NONE;
  int32_t scale_dtype = FOVEA_F32;
  int32_t group = 16;
  int64_t pages = 5, heads = 2, d_k = 40, d_v = 24;
  int32_t page_size = 4;
  int32_t d_rope = 0, rope_dtype = FOVEA_BF16;
  bool v_in_k = false;
};

inline int32_t element_type(int32_t codec) {
  return codec == FOVEA_CODEC_FP8    ? FOVEA_E4M3
         : codec == FOVEA_CODEC_BF16 ? FOVEA_BF16
         : codec == FOVEA_CODEC_F16  ? FOVEA_F16
                                     : FOVEA_F32;
}

struct Store {
  struct Side {
    TensorBox data, scale;  // [pages, page_size, heads, dims], and [.., .., .., scales of a vector]
  };

  Store(const StoreForm& form, Rng& rng) : f(form) {
    const auto box = [&](int32_t type, int64_t dims) {
      return TensorBox(type, {f.pages, f.page_size, f.heads, dims}, random_layout(rng, 4));
    };
    kv.heads = static_cast<int32_t>(f.heads);
    kv.d_k = static_cast<int32_t>(f.d_k);
    kv.d_v = static_cast<int32_t>(f.d_v);
    kv.page_size = f.page_size;
    kv.pages = f.pages;
    kv.v_in_k = f.v_in_k;
    const auto make = [&](KvSide& side, Side& memory, int32_t codec, int32_t kind, int64_t dims) {
      side.codec = codec;
      side.scale_kind = kind;
      memory.data = box(element_type(codec), dims);
      side.data = stream(memory.data);
      if (kind == FOVEA_SCALE_NONE) return;
      side.scale_dtype = f.scale_dtype;
      if (kind == FOVEA_SCALE_GROUP) side.scale_group = f.group;
      if (kind == FOVEA_SCALE_TENSOR || kind == FOVEA_SCALE_HEAD) {
        memory.scale = TensorBox(f.scale_dtype, {1, 1, kind == FOVEA_SCALE_HEAD ? f.heads : 1, 1});
        memory.scale.fill([](int64_t i) { return 0.25 + 0.5 * static_cast<double>(i); });
        side.scale = {memory.scale.at(0), 0, 0, kind == FOVEA_SCALE_HEAD ? fovea_dtype_bytes(f.scale_dtype, 1) : 0};
      } else {
        memory.scale = box(f.scale_dtype, kind == FOVEA_SCALE_GROUP ? (dims + f.group - 1) / f.group : 1);
        side.scale = stream(memory.scale);
      }
    };
    make(kv.k, k, f.k_codec, f.k_scale, f.d_k - f.d_rope);
    if (!f.v_in_k) make(kv.v, v, f.v_codec, f.v_scale, f.d_v);
    if (f.d_rope > 0) {
      kv.d_rope = f.d_rope;
      kv.rope_dtype = f.rope_dtype;
      k_rope = box(f.rope_dtype, f.d_rope);
      kv.k_rope = stream(k_rope);
    }
  }

  std::vector<const TensorBox*> tensors() const {
    std::vector<const TensorBox*> all;
    for (const TensorBox* t : {&k.data, &k.scale, &v.data, &v.scale, &k_rope}) {
      if (*t) all.push_back(t);
    }
    return all;
  }
  std::vector<std::byte> bits() const {
    std::vector<std::byte> all;
    for (const TensorBox* t : tensors()) {
      const std::vector<std::byte> part = t->bits();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  bool outside_untouched() const {
    for (const TensorBox* t : tensors()) {
      if (!t->outside_untouched()) return false;
    }
    return true;
  }

  StoreForm f;
  Kv kv;
  Side k, v;
  TensorBox k_rope;
};

// The elements of one vector of a stream, as numbers.
inline std::vector<double> vector_at(const TensorBox& t, int64_t slot, int64_t head) {
  const fovea_tensor& v = t.view();
  const int64_t n = v.shape[3], first = (slot * v.shape[2] + head) * n;
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(t.get(first + i));
  return x;
}

// K, V and slots of some tokens.
struct Tokens {
  Tokens(const Store& store, std::vector<int64_t> to, Rng& rng, int32_t type = FOVEA_BF16, int32_t index = FOVEA_I32)
      : where(std::move(to)), slots(indices(where, index)) {
    const int64_t n = static_cast<int64_t>(where.size());
    const auto make = [&](int64_t dims) {
      TensorBox t(type, {n, store.f.heads, dims}, random_layout(rng, 3));
      t.assign(draw(rng, Values::normal, n * store.f.heads, dims));
      return t;
    };
    k = make(store.f.d_k);
    if (!store.f.v_in_k) v = make(store.f.d_v);
  }
  KvAppendParams params(const Store& store) const { return {.k = k, .v = v, .kv = &store.kv, .slot_mapping = slots}; }
  std::vector<double> vector(const TensorBox& t, int64_t token, int64_t head) const {
    const int64_t n = t.view().shape[2], first = (token * t.view().shape[1] + head) * n;
    std::vector<double> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(t.get(first + i));
    return x;
  }

  std::vector<int64_t> where;
  TensorBox k, v, slots;
};

struct Fused {
  RopeConfig rope;
  TensorBox k_weight, q_weight, q, q_out, positions;
  KvAppendParams params;
};

inline Fused fuse(const Store& store, const Tokens& tokens, Rng& rng, int64_t q_heads = 6) {
  Fused f;
  const int64_t n = static_cast<int64_t>(tokens.where.size()), d = store.f.d_k, norm_dims = d - store.f.d_rope;
  const auto weights = [&] {
    TensorBox w(FOVEA_BF16, {norm_dims});
    w.fill([&](int64_t) { return rng.normal() * 0.3; });
    return w;
  };
  f.k_weight = weights();
  f.q_weight = weights();
  f.q = TensorBox(FOVEA_BF16, {n, q_heads, d}, random_layout(rng, 3));
  f.q.assign(draw(rng, Values::normal, n * q_heads, d));
  f.q_out = TensorBox(FOVEA_F32, {n, q_heads, d}, random_layout(rng, 3));
  std::vector<int64_t> p;
  for (int64_t i = 0; i < n; ++i) p.push_back(rng.integer(0, 3000));
  f.positions = indices(p, FOVEA_I64);
  f.params = tokens.params(store);
  f.params.q = f.q;
  f.params.q_out = f.q_out;
  f.params.q_norm_weight = f.q_weight;
  f.params.k_norm_weight = f.k_weight;
  f.params.norm_eps = 1e-5f;
  f.params.norm_weight_offset = 1;
  f.params.positions = f.positions;
  return f;
}

// Only the slots named were written.
inline void expect_rest_untouched(const Store& store, const std::vector<int64_t>& slots) {
  const std::set<int64_t> written(slots.begin(), slots.end());
  EXPECT_TRUE(store.outside_untouched());
  for (const TensorBox* t : store.tensors()) {
    const fovea_tensor& v = t->view();
    if (v.shape[0] != store.f.pages || v.shape[1] != store.f.page_size) continue;  // given scales
    const std::vector<std::byte> bits = t->bits();
    const size_t slot_bytes = bits.size() / static_cast<size_t>(store.f.pages * store.f.page_size);
    for (size_t i = 0; i < bits.size(); ++i) {
      if (written.contains(static_cast<int64_t>(i / slot_bytes))) continue;
      ASSERT_EQ(bits[i], std::byte{kPoison}) << "slot " << i / slot_bytes;
    }
  }
}

}  // namespace fovea::test
