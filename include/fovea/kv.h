/* SPDX-License-Identifier: Apache-2.0
 * A KV cache as affine byte streams: one struct for every host's layout and every format. Part of fovea.h.
 *
 *   address(stream, page, token, head) = base + page * page_stride + (token % page_size) * token_stride + head *
 * head_stride
 *
 *   paged       page = page_table[b][t / page_size]; 2-D [batch, columns], or CSR: 1-D with page_indptr [batch + 1]
 *   contiguous  no page_table, no cu_seqlens_kv: page_size is the capacity, page = b
 *   ragged      cu_seqlens_kv [batch + 1]: page = 0, t counts from cu_seqlens_kv[b]; pages = 1, page_size = all tokens
 */
#ifndef FOVEA_KV_H_
#define FOVEA_KV_H_

#include "fovea/core.h"

FOVEA_EXTERN_C_BEGIN

typedef enum fovea_codec {
  FOVEA_CODEC_NONE = 0,
#define FOVEA_CODEC(name, NAME, value, dtype) FOVEA_CODEC_##NAME = value,
#include "fovea/codecs.def"
#undef FOVEA_CODEC
} fovea_codec;

typedef enum fovea_scale_kind {
#define FOVEA_SCALE_KIND(name, NAME, value, text) FOVEA_SCALE_##NAME = value,
#include "fovea/scale_kinds.def"
#undef FOVEA_SCALE_KIND
} fovea_scale_kind;

typedef struct fovea_kv_stream {
  void* base FOVEA_DEFAULT(FOVEA_NULL);
  int64_t page_stride FOVEA_DEFAULT(0);  /* bytes, any sign */
  int64_t token_stride FOVEA_DEFAULT(0); /* bytes */
  int64_t head_stride FOVEA_DEFAULT(0);  /* bytes */
} fovea_kv_stream;

/* One side (K or V) of a cache: the stored elements and their scales. x = stored * scale.
 * Scale address: as above with the strides of `scale`; kind tensor uses only base, kind head only base and head_stride;
 * kind group adds (dim / scale_group) * size of scale_dtype. A kind of none with fp8 is refused; codecs i8 to q2 have
 * kind token_head, f16 or f32, and lie in records. */
typedef struct fovea_kv_side {
  int32_t codec FOVEA_DEFAULT(0);       /* fovea_codec */
  int32_t scale_kind FOVEA_DEFAULT(0);  /* fovea_scale_kind */
  int32_t scale_dtype FOVEA_DEFAULT(0); /* f32, f16 or bf16 where scale_kind is not none, else 0 */
  int32_t scale_group FOVEA_DEFAULT(0); /* dims per scale for kind group, else 0 */
  fovea_kv_stream data FOVEA_DEFAULT({});
  fovea_kv_stream scale FOVEA_DEFAULT({});
} fovea_kv_side;

typedef struct fovea_kv {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_kv));
  int32_t heads FOVEA_DEFAULT(0);     /* kv heads */
  int32_t d_k FOVEA_DEFAULT(0);       /* dims of K, k_rope included */
  int32_t d_v FOVEA_DEFAULT(0);       /* dims of V */
  int32_t page_size FOVEA_DEFAULT(0); /* tokens per page, at least 1 */
  int32_t v_in_k FOVEA_DEFAULT(0);    /* 1: V is the first d_v dims of K (MLA); then v must be left at its defaults */
  int64_t pages FOVEA_DEFAULT(0);     /* pages in the pool: ids are in [0, pages) */
  int64_t max_len FOVEA_DEFAULT(0); /* bound of kv_lens for planning; 0 = what page table, page_size or tokens allow */
  fovea_kv_side k FOVEA_DEFAULT({});
  fovea_kv_side v FOVEA_DEFAULT({});
  /* The last d_rope dims of K in a stream of their own, unscaled, of type rope_dtype (f32, f16, bf16); 0 = none. */
  int32_t d_rope FOVEA_DEFAULT(0);
  int32_t rope_dtype FOVEA_DEFAULT(0);
  fovea_kv_stream k_rope FOVEA_DEFAULT({});
  /* Index tensors are i32 or i64. */
  fovea_tensor page_table FOVEA_DEFAULT({});
  fovea_tensor v_page_table FOVEA_DEFAULT({}); /* optional own table of V, same shape as page_table */
  fovea_tensor page_indptr FOVEA_DEFAULT({});  /* [batch + 1], with a 1-D page_table */
  fovea_tensor kv_lens FOVEA_DEFAULT({}); /* [batch] tokens of each sequence; required unless cu_seqlens_kv is given */
  fovea_tensor starts
      FOVEA_DEFAULT({}); /* [batch] optional: keys before it are not visible (left padding, dropped pages) */
  fovea_tensor cu_seqlens_kv FOVEA_DEFAULT({}); /* [batch + 1] */
  int32_t record_version FOVEA_DEFAULT(0);      /* 0 = plain strides; 1 = records, as fovea_kv_record lays them */
  /* For rotated and foreign codecs, per layer: refused by every codec that has no use for them. */
  float prescale FOVEA_DEFAULT(1.0f);      /* of codecs i8 to q2: power of two; scale = stored * prescale */
  fovea_tensor rotation FOVEA_DEFAULT({}); /* f32 [kv heads, d_k, d_k] dense rotation of K */
  fovea_tensor k_offset FOVEA_DEFAULT({}); /* f32 [kv heads, d_k] subtracted from K before encoding */
  fovea_tensor codebook FOVEA_DEFAULT({}); /* f32 [2^bits] */
  fovea_tensor signs FOVEA_DEFAULT({});    /* f32 [32] */
  /* This rank holds the tokens t with (t / shard_interleave) % shard_world == shard_rank, packed in order; kv_lens,
   * starts and positions stay global. */
  int32_t shard_world FOVEA_DEFAULT(1);
  int32_t shard_rank FOVEA_DEFAULT(0);
  int32_t shard_interleave FOVEA_DEFAULT(1); /* tokens */
} fovea_kv;

FOVEA_API void fovea_kv_init(fovea_kv* kv);

/* Lays out a pool of records (docs/kv-formats.md), one for each page and head, those of a page side by side: fills the
 * strides of the streams in `kv` and, where `records` is not null, their bases, and sets record_version. kv has heads,
 * dims, pages, page_size (16, 32, 64 or 128), codecs, scale kinds and types, d_rope and rope_dtype. Scales of a token
 * and head are part of the record; those of kinds tensor and head stay the caller's. `records` lies at a multiple of
 * 128 bytes. `bytes`, where not null, receives the size of the pool. */
FOVEA_API fovea_status fovea_kv_record(fovea_kv* kv, void* records, int64_t* bytes);

FOVEA_EXTERN_C_END

#endif /* FOVEA_KV_H_ */
