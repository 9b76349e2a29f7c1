// SPDX-License-Identifier: Apache-2.0
#include "pool/page_pool.h"

#include <new>

#include "api/context.h"

namespace fovea {

namespace {

template <class T>
Status check_out(const char* name, const T* out) {
  return out ? Status() : invalid_value(name, "null", "must point to where the result goes");
}

// Calls body on the pool behind the handle.
template <class Pool, class Body>
fovea_status with_pool(Pool* pool, const Body& body) {
  return guarded([&]() -> Status {
    if (pool == nullptr) return invalid_value("pool", "null", "must be a pool");
    return body(*pool);
  });
}

}  // namespace
}  // namespace fovea

using fovea::check_out;
using fovea::Status;
using fovea::with_pool;

extern "C" {

fovea_status fovea_page_pool_create(int64_t pages, int32_t page_size, fovea_page_pool** out) {
  return fovea::guarded([&]() -> Status {
    FOVEA_TRY(check_out("out", out));
    FOVEA_TRY(fovea_page_pool::check(pages, page_size));
    *out = new fovea_page_pool(pages, page_size);
    return {};
  });
}

void fovea_page_pool_destroy(fovea_page_pool* pool) {
  delete pool;
}

fovea_status fovea_page_pool_open(fovea_page_pool* pool, int64_t* sequence) {
  return with_pool(pool, [&](fovea_page_pool& p) -> Status {
    FOVEA_TRY(check_out("sequence", sequence));
    *sequence = p.open();
    return {};
  });
}

fovea_status fovea_page_pool_close(fovea_page_pool* pool, int64_t sequence) {
  return with_pool(pool, [&](fovea_page_pool& p) { return p.close(sequence); });
}

fovea_status fovea_page_pool_fork(fovea_page_pool* pool, int64_t sequence, int64_t tokens, int64_t* child) {
  return with_pool(pool, [&](fovea_page_pool& p) -> Status {
    FOVEA_TRY(check_out("child", child));
    return p.fork(sequence, tokens, *child);
  });
}

fovea_status fovea_page_pool_append(fovea_page_pool* pool, int64_t sequence, int64_t tokens, int64_t* slots,
                                    fovea_page_copy* copy) {
  return with_pool(pool, [&](fovea_page_pool& p) -> Status {
    FOVEA_TRY(check_out("copy", copy));
    return p.append(sequence, tokens, slots, *copy);
  });
}

fovea_status fovea_page_pool_truncate(fovea_page_pool* pool, int64_t sequence, int64_t tokens) {
  return with_pool(pool, [&](fovea_page_pool& p) { return p.truncate(sequence, tokens); });
}

fovea_status fovea_page_pool_drop_before(fovea_page_pool* pool, int64_t sequence, int64_t token) {
  return with_pool(pool, [&](fovea_page_pool& p) { return p.drop_before(sequence, token); });
}

fovea_status fovea_page_pool_table(const fovea_page_pool* pool, int64_t sequence, int64_t* tokens, int64_t* pages,
                                   int64_t size, int64_t* count) {
  return with_pool(pool, [&](const fovea_page_pool& p) { return p.table(sequence, tokens, pages, size, count); });
}

fovea_status fovea_page_pool_get_stats(const fovea_page_pool* pool, fovea_page_pool_stats* stats) {
  return with_pool(pool, [&](const fovea_page_pool& p) -> Status {
    FOVEA_TRY(check_out("stats", stats));
    *stats = p.stats();
    return {};
  });
}

}  // extern "C"
