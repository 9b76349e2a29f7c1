// SPDX-License-Identifier: Apache-2.0
// Caches that lie in records (docs/kv-formats.md): their strides, and what only they can hold.
#pragma once

#include "base/status.h"
#include "fovea/kv.h"
#include "shared/kv/cache.h"

namespace fovea {

// Completes `spec`, which holds everything else. Without records: that nothing asks for them.
Status check_kv_records(const char* name, const fovea_kv& kv, KvSpec& spec);

// Fills streams and record_version; see fovea_kv_record.
Status lay_out_records(fovea_kv* kv, void* records, int64_t* bytes);

}  // namespace fovea
