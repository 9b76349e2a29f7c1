// SPDX-License-Identifier: Apache-2.0
// Caches in every layout of the hosts: guarded, exactly sized, and NaN wherever no needed token lies.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/fovea.h"
#include "support/guarded.h"
#include "support/random.h"
#include "support/tensors.h"

namespace fovea::test {

// P pages of T tokens and H heads of D elements.
enum class KvLayout {
  nhd,             // K and V each [P, T, H, D]
  hnd,             // K and V each [P, H, T, D]
  halves,          // one buffer [2, P, T, H, D]
  joint_hnd,       // one buffer [P, H, T, Dk + Dv]
  joint_nhd,       // one buffer [P, T, H, Dk + Dv]
  one_pool,        // one pool of [H, T, D] pages for K and V, each side with its own page list
  scales_in_page,  // one buffer; a page holds K, V, K scales, V scales
  record,          // [P, T, H] records of K, its scales, its rope dims (MLA: V is in K)
  reversed,        // nhd with every stride negative
  shared_heads,    // nhd with head stride 0
};
inline constexpr KvLayout kPlainLayouts[] = {KvLayout::nhd,       KvLayout::hnd,         KvLayout::halves,
                                             KvLayout::joint_hnd, KvLayout::joint_nhd,   KvLayout::one_pool,
                                             KvLayout::reversed,  KvLayout::shared_heads};
const char* name_of(KvLayout layout);

enum class KvIndex { table, csr, contiguous, ragged };

struct SideSpec {
  int32_t codec = FOVEA_CODEC_F32;
  int32_t scale_kind = FOVEA_SCALE_NONE;
  int32_t scale_dtype = FOVEA_F32;  // where there is a scale
  int32_t scale_group = 0;          // of kind group
};

struct KvSpec {
  std::vector<int64_t> lens = {};    // tokens of each sequence
  std::vector<int64_t> starts = {};  // empty: none given
  int32_t heads = 1;
  int32_t d_k = 32;
  int32_t d_v = 32;
  int32_t page_size = 16;  // contiguous and ragged: follows from lens
  SideSpec k = {};
  SideSpec v = {};
  bool v_in_k = false;
  int32_t d_rope = 0;
  int32_t rope_dtype = FOVEA_BF16;
  KvLayout layout = KvLayout::nhd;
  KvIndex index = KvIndex::table;
  bool v_table = false;  // an own page table for V (one_pool has it always)
  int32_t index_dtype = FOVEA_I32;
  int64_t spare_pages = 2;  // contiguous: tokens of capacity beyond the longest
  int64_t page_pad = 0;     // bytes between pages
  int32_t shard_world = 1;
  int32_t shard_rank = 0;
  int32_t shard_interleave = 1;
  float prescale = 1;  // of grids, which lie in records whatever the layout
  Place place = Place::end;
};

// Is token t of sequence b read by the call? Page ids and elements of all others are garbage.
using Needed = std::function<bool(int64_t b, int64_t t)>;

class KvCache {
 public:
  KvCache(const KvSpec& spec, Rng& rng, const Needed& needed);
  const fovea_kv& kv() const { return kv_; }
  fovea_kv& kv() { return kv_; }
  // Writes one token's K and V, all heads; draws its scales where each token has its own.
  void write(int64_t b, int64_t t, const std::vector<double>& k, const std::vector<double>& v, Rng& rng) const;
  // Every byte of every data, scale and rope buffer.
  std::vector<std::byte> bytes() const;
  // Behind the views of kv().
  TensorBox page_table, v_page_table, page_indptr, kv_lens, starts, cu_seqlens_kv;

 private:
  bool in_records() const;
  void make_streams(Rng& rng);
  void make_records(Rng& rng);
  void make_scales(Rng& rng, const SideSpec& side, fovea_kv_side& out, bool apart);
  void make_indices(Rng& rng, const Needed& needed);
  std::byte* buffer(int64_t bytes);

  KvSpec spec_;
  int64_t batch_ = 0;
  int64_t columns_ = 0;  // of the widest page table row
  fovea_kv kv_;
  std::vector<Guarded> memory_;
};

// Draws K and V of each needed token and writes them.
void fill(const KvCache& cache, const KvSpec& spec, Rng& rng, Values k, Values v, const Needed& needed);

}  // namespace fovea::test
