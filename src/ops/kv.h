// SPDX-License-Identifier: Apache-2.0
// Checks and binding of a fovea_kv, for every operation that reads or writes a cache. `name` is the argument's name in
// messages: "kv", "kv[1]", "src".
#pragma once

#include <string>

#include "base/status.h"
#include "base/tensor.h"
#include "fovea/kv.h"
#include "shared/kv/cache.h"

namespace fovea {

// "kv" + ".k" + ".codec" without the heap: names are made on every call, used only in complaints.
class Field {
 public:
  Field(const char* a, const char* b, const char* c = "") {
    size_t n = 0;
    for (const char* part : {a, b, c}) {
      for (; *part != '\0' && n + 1 < sizeof text_; ++part) text_[n++] = *part;
    }
    text_[n] = '\0';
  }
  operator const char*() const { return text_; }
  operator std::string() const { return text_; }

 private:
  char text_[64];
};

// The store itself: dims, pages, codecs, scales, strides, options. Fills the first part of the spec.
Status check_kv_store(const char* name, const fovea_kv* kv, KvSpec& spec);
// That but for what only records have.
Status check_kv_parts(const char* name, const fovea_kv* kv, KvSpec& spec);
// What says which tokens belong to which of `batch` sequences: tables, lengths, starts, shard. Fills the rest.
Status check_kv_sequences(const char* name, const fovea_kv& kv, int64_t batch, Place place, KvSpec& spec);

// Binding: pointers that the store needs must not be null, and are aligned to their elements.
Status bind_kv_store(const char* name, const fovea_kv& kv, const KvSpec& spec, KvView& view);
Status bind_kv_sequences(const char* name, const fovea_kv& kv, KvView& view);

// May a plan made for one store or set of sequences run the other? Lengths may shrink.
bool kv_fits(const KvSpec& planned, const KvSpec& now);

}  // namespace fovea
