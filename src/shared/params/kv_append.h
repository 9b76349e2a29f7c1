// SPDX-License-Identifier: Apache-2.0
// kv_append: what a plan is made from, and the block a kernel receives. Freestanding.
#pragma once

#include "shared/kv/cache.h"
#include "shared/rope.h"
#include "shared/view.h"

namespace fovea {

inline constexpr int kMaxAppendDim = 1024;  // of one vector of K, V or Q

struct KvAppendSpec {
  KvSpec kv;
  RotarySpec rotary;  // rotary_dim 0: no RoPE
  Dtype k = Dtype::none;
  Dtype v = Dtype::none;  // none where v_in_k
  Dtype q = Dtype::none;  // none: no q
  Dtype q_out = Dtype::none;
  int has_k_norm = 0;
  int has_q_norm = 0;
  i64_t tokens = 0;  // the most a run may have
  i64_t q_heads = 0;
  i64_t d_q = 0;
  bool operator==(const KvAppendSpec&) const = default;
};

struct KvAppendArgs {
  KvAppendSpec spec;
  View k;              // [tokens, kv heads, d_k]
  View v;              // [tokens, kv heads, d_v]
  View slot_mapping;   // [tokens]
  View q;              // [tokens, q heads, d_q]
  View q_out;          // as q
  View k_norm_weight;  // [d_k - d_rope]
  View q_norm_weight;  // [d_q - d_rope]
  float norm_eps = 0;
  float norm_weight_offset = 0;
  RotaryInput rotary;
  KvView kv;
};

// Where token i goes; `stored` is false for a negative slot and for one past the pool.
inline bool append_slot(const KvAppendArgs& a, i64_t token, KvSlot& slot) {
  const i64_t s = index_at(a.slot_mapping, token);
  if (s < 0) return false;
  slot = kv_slot(s, a.spec.kv.page_size);
  return slot.page < a.kv.pages;
}

}  // namespace fovea
