/* SPDX-License-Identifier: Apache-2.0
 * PagePool: the book-keeping of a paged cache on the host. It owns no cache memory; it hands out page ids, shares pages
 * between sequences with counts, and says which page to copy before a shared one is written. Not thread-safe: one pool
 * belongs to one scheduler. docs/page_pool.md
 */
#ifndef FOVEA_PAGE_POOL_H_
#define FOVEA_PAGE_POOL_H_

#include "fovea/core.h"

FOVEA_EXTERN_C_BEGIN

typedef struct fovea_page_pool fovea_page_pool;

typedef struct fovea_page_copy {
  int64_t src FOVEA_DEFAULT(-1); /* page ids; -1 = nothing to copy */
  int64_t dst FOVEA_DEFAULT(-1);
} fovea_page_copy;

typedef struct fovea_page_pool_stats {
  int64_t pages FOVEA_DEFAULT(0); /* capacity */
  int64_t free_pages FOVEA_DEFAULT(0);
  int64_t shared_pages FOVEA_DEFAULT(0); /* held by more than one sequence */
  int64_t sequences FOVEA_DEFAULT(0);
} fovea_page_pool_stats;

FOVEA_API fovea_status fovea_page_pool_create(int64_t pages, int32_t page_size, fovea_page_pool** out);
FOVEA_API void fovea_page_pool_destroy(fovea_page_pool* pool);

/* Sequence ids are never reused within a pool. */
FOVEA_API fovea_status fovea_page_pool_open(fovea_page_pool* pool, int64_t* sequence);
FOVEA_API fovea_status fovea_page_pool_close(fovea_page_pool* pool, int64_t sequence);
/* A new sequence that shares the pages of the first `tokens` tokens (at most its length). Also a snapshot. */
FOVEA_API fovea_status fovea_page_pool_fork(fovea_page_pool* pool, int64_t sequence, int64_t tokens, int64_t* child);
/* Grows a sequence by `tokens`. slots [tokens] (may be null) receives page * page_size + offset of each new token. If
 * the first new token falls into a shared page, *copy names the page copy to make (with kv_copy) before writing.
 * OUT_OF_MEMORY changes nothing. */
FOVEA_API fovea_status fovea_page_pool_append(fovea_page_pool* pool, int64_t sequence, int64_t tokens, int64_t* slots,
                                              fovea_page_copy* copy);
/* Rolls back to `tokens` tokens; pages that become empty are released. */
FOVEA_API fovea_status fovea_page_pool_truncate(fovea_page_pool* pool, int64_t sequence, int64_t tokens);
/* Releases the pages that hold only tokens before `token`; their table entries become -1. Positions do not change. */
FOVEA_API fovea_status fovea_page_pool_drop_before(fovea_page_pool* pool, int64_t sequence, int64_t token);
/* Length in tokens, and the page table: writes min(count, size) ids to pages (may be null); *count may be null. */
FOVEA_API fovea_status fovea_page_pool_table(const fovea_page_pool* pool, int64_t sequence, int64_t* tokens,
                                             int64_t* pages, int64_t size, int64_t* count);
FOVEA_API fovea_status fovea_page_pool_get_stats(const fovea_page_pool* pool, fovea_page_pool_stats* stats);

FOVEA_EXTERN_C_END

#endif /* FOVEA_PAGE_POOL_H_ */
