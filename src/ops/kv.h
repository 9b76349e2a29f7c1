// SPDX-License-Identifier: Apache-2.0
// Checks and binding of a fovea_kv, for every operation that reads or writes a cache. `name` is the argument's name in
// messages: "kv", "kv[1]", "src".
#pragma once

#include "base/status.h"
#include "base/tensor.h"
#include "fovea/kv.h"
#include "shared/kv/cache.h"

namespace fovea {

// The store itself: dims, pages, codecs, scales, strides, options. Fills the first part of the spec.
Status check_kv_store(const char* name, const fovea_kv* kv, KvSpec& spec);
// What says which tokens belong to which of `batch` sequences: tables, lengths, starts, shard. Fills the rest.
Status check_kv_sequences(const char* name, const fovea_kv& kv, int64_t batch, Place place, KvSpec& spec);

// Binding: pointers that the store needs must not be null, and are aligned to their elements.
Status bind_kv_store(const char* name, const fovea_kv& kv, const KvSpec& spec, KvView& view);
Status bind_kv_sequences(const char* name, const fovea_kv& kv, KvView& view);

// May a plan made for one store or set of sequences run the other? Lengths may shrink.
bool kv_fits(const KvSpec& planned, const KvSpec& now);

}  // namespace fovea
