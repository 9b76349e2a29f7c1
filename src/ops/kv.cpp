// SPDX-License-Identifier: Apache-2.0
#include "ops/kv.h"

#include <algorithm>
#include <limits>

#include "base/struct_size.h"
#include "ops/kv_record.h"
#include "ops/view.h"
#include "shared/kv/record.h"

namespace fovea {

namespace {

// a * b for sizes that are not negative, or the largest number there is.
int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

Status check_range(const char* argument, int64_t value, int64_t least, int64_t most, const char* why = "") {
  if (value >= least && value <= most) return {};
  const bool open = most == std::numeric_limits<int64_t>::max() || most == std::numeric_limits<int32_t>::max();
  return invalid_value(argument, value,
                       open ? "must be at least " + std::to_string(least) + why
                            : "must be " + std::to_string(least) + " to " + std::to_string(most) + why);
}

// Strides of whole elements, and no address of the store that 64 bits cannot hold.
Status check_stream(const char* name, const fovea_kv& kv, const fovea_kv_stream& s, int element_bytes) {
  const struct {
    const char* field;
    int64_t stride, count;
  } strides[] = {{"page_stride", s.page_stride, kv.pages},
                 {"token_stride", s.token_stride, kv.page_size},
                 {"head_stride", s.head_stride, kv.heads}};
  constexpr int64_t kReach = int64_t{1} << 60;
  for (const auto& [field, stride, count] : strides) {
    if (stride % element_bytes != 0) {
      return invalid_value(Field(name, ".", field), stride,
                           "must be a multiple of the element's " + std::to_string(element_bytes) + " bytes");
    }
    int64_t reach = 0;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(count - 1, 0), &reach) || reach > kReach || reach < -kReach) {
      return invalid_value(Field(name, ".", field), stride, "addresses more than 2^60 bytes");
    }
  }
  return {};
}

Status check_unused_stream(const char* name, const fovea_kv_stream& s, const char* why) {
  if (s.base != nullptr) return invalid_value(Field(name, ".base"), "given", why);
  if (s.page_stride != 0) return invalid_value(Field(name, ".page_stride"), s.page_stride, why);
  if (s.token_stride != 0) return invalid_value(Field(name, ".token_stride"), s.token_stride, why);
  if (s.head_stride != 0) return invalid_value(Field(name, ".head_stride"), s.head_stride, why);
  return {};
}

// Scales of a kind use only some of the strides; the others must be left at 0, so that addresses need not know the
// kind.
Status check_scale_stream(const char* name, const fovea_kv& kv, const fovea_kv_side& side) {
  const fovea_kv_stream& s = side.scale;
  if (side.scale_kind == FOVEA_SCALE_TENSOR && s.head_stride != 0) {
    return invalid_value(Field(name, ".head_stride"), s.head_stride, "must be 0: one scale serves all heads");
  }
  if (side.scale_kind == FOVEA_SCALE_TENSOR || side.scale_kind == FOVEA_SCALE_HEAD) {
    if (s.page_stride != 0)
      return invalid_value(Field(name, ".page_stride"), s.page_stride, "must be 0 for this scale kind");
    if (s.token_stride != 0)
      return invalid_value(Field(name, ".token_stride"), s.token_stride, "must be 0 for this scale kind");
  }
  return check_stream(name, kv, s, dtype_block_bytes(static_cast<Dtype>(side.scale_dtype)));
}

Status check_side(const char* name, const fovea_kv& kv, const fovea_kv_side& side, int dims, KvSideSpec& spec) {
  const CodecRow* codec = find_codec(side.codec);
  if (codec == nullptr) {
    std::string names;
    for (const CodecRow& row : kCodecs) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return invalid_value(Field(name, ".codec"), side.codec, "must be one of enum fovea_codec (" + names + ")");
  }
  if (find_scale_kind(side.scale_kind) == nullptr) {
    return invalid_value(Field(name, ".scale_kind"), side.scale_kind, "must be one of enum fovea_scale_kind");
  }
  spec = {.codec = static_cast<Codec>(side.codec),
          .scale_kind = static_cast<ScaleKind>(side.scale_kind),
          .scale_dtype = static_cast<Dtype>(side.scale_dtype),
          .scale_group = side.scale_group};
  FOVEA_TRY(check_stream(Field(name, ".data"), kv, side.data, dtype_block_bytes(codec_dtype(spec.codec))));
  if (side.scale_kind == FOVEA_SCALE_NONE) {
    if (codec_needs_scale(spec.codec)) {
      return invalid_value(Field(name, ".scale_kind"), "none",
                           std::string("codec ") + codec->name + " needs a scale (a tensor scale of 1 is explicit)");
    }
    if (side.scale_dtype != 0)
      return invalid_value(Field(name, ".scale_dtype"), side.scale_dtype, "scale_kind is none");
    if (side.scale_group != 0)
      return invalid_value(Field(name, ".scale_group"), side.scale_group, "scale_kind is none");
    return check_unused_stream(Field(name, ".scale"), side.scale, "scale_kind is none");
  }
  if (!is_float(side.scale_dtype)) {
    return invalid_type(Field(name, ".scale_dtype"), side.scale_dtype, "must be one of f32, f16, bf16");
  }
  if (side.scale_kind == FOVEA_SCALE_GROUP) {
    FOVEA_TRY(check_range(Field(name, ".scale_group"), side.scale_group, 1, dims, " (dims)"));
  } else if (side.scale_group != 0) {
    return invalid_value(Field(name, ".scale_group"), side.scale_group, "only scale_kind group has it");
  }
  return check_scale_stream(Field(name, ".scale"), kv, side);
}

Status check_k_rope(const char* name, const fovea_kv& kv) {
  if (kv.d_rope == 0) {
    if (kv.rope_dtype != 0) return invalid_value(Field(name, ".rope_dtype"), kv.rope_dtype, "d_rope is 0");
    return check_unused_stream(Field(name, ".k_rope"), kv.k_rope, "d_rope is 0");
  }
  FOVEA_TRY(check_range(Field(name, ".d_rope"), kv.d_rope, 0, kv.d_k - 1, " (less than d_k)"));
  if (!is_float(kv.rope_dtype)) {
    return invalid_type(Field(name, ".rope_dtype"), kv.rope_dtype, "must be one of f32, f16, bf16");
  }
  return check_stream(Field(name, ".k_rope"), kv, kv.k_rope, dtype_block_bytes(static_cast<Dtype>(kv.rope_dtype)));
}

Status check_v(const char* name, const fovea_kv& kv, KvSpec& spec) {
  if (!kv.v_in_k) return check_side(Field(name, ".v"), kv, kv.v, kv.d_v, spec.v);
  FOVEA_TRY(check_range(Field(name, ".d_v"), kv.d_v, 1, kv.d_k - kv.d_rope, " (V is part of K before k_rope)"));
  const Field v(name, ".v");
  const char* why = "V is part of K (v_in_k)";
  if (kv.v.codec != 0) return invalid_value(Field(v, ".codec"), kv.v.codec, why);
  if (kv.v.scale_kind != 0) return invalid_value(Field(v, ".scale_kind"), kv.v.scale_kind, why);
  if (kv.v.scale_dtype != 0) return invalid_value(Field(v, ".scale_dtype"), kv.v.scale_dtype, why);
  if (kv.v.scale_group != 0) return invalid_value(Field(v, ".scale_group"), kv.v.scale_group, why);
  FOVEA_TRY(check_unused_stream(Field(v, ".data"), kv.v.data, why));
  FOVEA_TRY(check_unused_stream(Field(v, ".scale"), kv.v.scale, why));
  spec.v = spec.k;
  return {};
}

// Fields that exist for codecs of other builds.
Status check_codec_options(const char* name, const fovea_kv& kv) {
  const char* why = "no codec of this version has a use for it";
  FOVEA_TRY(check_absent(Field(name, ".rotation"), kv.rotation, why));
  FOVEA_TRY(check_absent(Field(name, ".k_offset"), kv.k_offset, why));
  FOVEA_TRY(check_absent(Field(name, ".codebook"), kv.codebook, why));
  return check_absent(Field(name, ".signs"), kv.signs, why);
}

Status check_shard(const char* name, const fovea_kv& kv, KvSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  FOVEA_TRY(check_range(Field(name, ".shard_world"), kv.shard_world, 1, kMost));
  FOVEA_TRY(check_range(Field(name, ".shard_rank"), kv.shard_rank, 0, kv.shard_world - 1, " (less than shard_world)"));
  FOVEA_TRY(check_range(Field(name, ".shard_interleave"), kv.shard_interleave, 1, kMost));
  if (kv.shard_world == 1 && kv.shard_interleave != 1) {
    return invalid_value(Field(name, ".shard_interleave"), kv.shard_interleave, "must be 1 where shard_world is 1");
  }
  if (kv.shard_world > 1 && !present(kv.kv_lens)) {
    return invalid_value(Field(name, ".kv_lens"), "absent", "a shard needs the lengths of whole sequences");
  }
  spec.shard = {.world = kv.shard_world, .rank = kv.shard_rank, .interleave = kv.shard_interleave};
  return {};
}

Status check_batch_vector(const char* name, const fovea_tensor& t, int64_t entries, const char* what, Place place) {
  FOVEA_TRY(check_tensor(name, t, kIndexTypes, 1, 1, place, LastStride::any));
  return check_dim(name, t, 0, entries, what);
}

Status check_page_tables(const char* name, const fovea_kv& kv, int64_t batch, Place place, KvSpec& spec) {
  const Field table(name, ".page_table"), indptr(name, ".page_indptr"), v_table(name, ".v_page_table");
  if (present(kv.cu_seqlens_kv)) {
    return invalid_value(Field(name, ".cu_seqlens_kv"), "given", "a cache with a page_table is not ragged");
  }
  const bool csr = present(kv.page_indptr);
  spec.layout = csr ? KvLayout::paged_csr : KvLayout::paged;
  const int rank = csr ? 1 : 2;
  if (!csr && kv.page_table.rank == 1) {
    return invalid_type(indptr, kv.page_indptr.dtype, "a page_table of rank 1 needs it");
  }
  if (csr && kv.page_table.rank == 2) return invalid_value(indptr, "given", "only a page_table of rank 1 has it");
  FOVEA_TRY(check_tensor(table, kv.page_table, kIndexTypes, rank, rank, place, LastStride::any));
  if (csr) {
    FOVEA_TRY(check_batch_vector(indptr, kv.page_indptr, batch + 1, "batch + 1", place));
  } else {
    FOVEA_TRY(check_dim(table, kv.page_table, 0, batch, "batch"));
  }
  if (present(kv.v_page_table)) {
    if (kv.v_in_k) return invalid_value(v_table, "given", "V is part of K (v_in_k)");
    FOVEA_TRY(check_tensor(v_table, kv.v_page_table, kIndexTypes, rank, rank, place, LastStride::any));
    FOVEA_TRY(check_same_shape(v_table, kv.v_page_table, table, kv.page_table));
  }
  spec.has_v_page_table = present(kv.v_page_table);
  return {};
}

Status check_layout(const char* name, const fovea_kv& kv, int64_t batch, Place place, KvSpec& spec) {
  if (present(kv.page_table)) return check_page_tables(name, kv, batch, place, spec);
  FOVEA_TRY(check_absent(Field(name, ".page_indptr"), kv.page_indptr, "needs a page_table"));
  FOVEA_TRY(check_absent(Field(name, ".v_page_table"), kv.v_page_table, "needs a page_table"));
  if (present(kv.cu_seqlens_kv)) {
    spec.layout = KvLayout::ragged;
    if (kv.pages != 1) return invalid_value(Field(name, ".pages"), kv.pages, "must be 1 for a ragged cache");
    return check_batch_vector(Field(name, ".cu_seqlens_kv"), kv.cu_seqlens_kv, batch + 1, "batch + 1", place);
  }
  spec.layout = KvLayout::contiguous;
  if (kv.pages < batch) {
    return invalid_value(Field(name, ".pages"), kv.pages,
                         "must be at least " + std::to_string(batch) + " (one per sequence of a contiguous cache)");
  }
  return {};
}

Status bind_stream(const char* name, const fovea_kv_stream& s, bool needed, int element_bytes, KvStream& out) {
  if (s.base == nullptr && needed) return invalid_value(Field(name, ".base"), "null", "a call needs its memory");
  if (reinterpret_cast<uintptr_t>(s.base) % static_cast<uintptr_t>(element_bytes) != 0) {
    return invalid_value(Field(name, ".base"), "misaligned",
                         "must be a multiple of the element's " + std::to_string(element_bytes) + " bytes");
  }
  out = {.base = static_cast<char*>(s.base),
         .page_stride = s.page_stride,
         .token_stride = s.token_stride,
         .head_stride = s.head_stride};
  return {};
}

Status bind_side(const char* name, const fovea_kv_side& side, const KvSideSpec& spec, bool needed, KvStream& data,
                 KvStream& scale) {
  FOVEA_TRY(bind_stream(Field(name, ".data"), side.data, needed, dtype_block_bytes(codec_dtype(spec.codec)), data));
  if (spec.scale_kind == ScaleKind::none) return {};
  return bind_stream(Field(name, ".scale"), side.scale, needed, dtype_block_bytes(spec.scale_dtype), scale);
}

}  // namespace

Status check_kv_parts(const char* name, const fovea_kv* kv, KvSpec& spec) {
  FOVEA_TRY(check_struct(name, kv));
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  FOVEA_TRY(check_range(Field(name, ".heads"), kv->heads, 1, kMost));
  FOVEA_TRY(check_range(Field(name, ".d_k"), kv->d_k, 1, kMost));
  FOVEA_TRY(check_range(Field(name, ".d_v"), kv->d_v, 1, kMost));
  FOVEA_TRY(check_range(Field(name, ".page_size"), kv->page_size, 1, kMost, " (tokens)"));
  FOVEA_TRY(check_range(Field(name, ".pages"), kv->pages, 0, std::numeric_limits<int64_t>::max()));
  if (kv->v_in_k != 0 && kv->v_in_k != 1) return invalid_value(Field(name, ".v_in_k"), kv->v_in_k, "must be 0 or 1");
  FOVEA_TRY(check_k_rope(name, *kv));
  spec = {};
  spec.heads = kv->heads;
  spec.d_k = kv->d_k;
  spec.d_v = kv->d_v;
  spec.d_rope = kv->d_rope;
  spec.rope_dtype = static_cast<Dtype>(kv->rope_dtype);
  spec.page_size = kv->page_size;
  spec.v_in_k = kv->v_in_k;
  FOVEA_TRY(check_side(Field(name, ".k"), *kv, kv->k, kv->d_k - kv->d_rope, spec.k));
  FOVEA_TRY(check_v(name, *kv, spec));
  return check_codec_options(name, *kv);
}

Status check_kv_store(const char* name, const fovea_kv* kv, KvSpec& spec) {
  FOVEA_TRY(check_kv_parts(name, kv, spec));
  return check_kv_records(name, *kv, spec);
}

Status check_kv_sequences(const char* name, const fovea_kv& kv, int64_t batch, Place place, KvSpec& spec) {
  FOVEA_TRY(check_layout(name, kv, batch, place, spec));
  if (present(kv.kv_lens)) {
    FOVEA_TRY(check_batch_vector(Field(name, ".kv_lens"), kv.kv_lens, batch, "batch", place));
  } else if (spec.layout != KvLayout::ragged) {
    return invalid_type(Field(name, ".kv_lens"), kv.kv_lens.dtype, "required unless cu_seqlens_kv is given");
  }
  if (present(kv.starts)) FOVEA_TRY(check_batch_vector(Field(name, ".starts"), kv.starts, batch, "batch", place));
  FOVEA_TRY(check_shard(name, kv, spec));
  FOVEA_TRY(check_range(Field(name, ".max_len"), kv.max_len, 0, std::numeric_limits<int64_t>::max()));
  spec.has_kv_lens = present(kv.kv_lens);
  spec.has_starts = present(kv.starts);
  const int64_t columns = spec.layout == KvLayout::paged       ? kv.page_table.shape[1]
                          : spec.layout == KvLayout::paged_csr ? kv.page_table.shape[0]
                                                               : 1;
  spec.max_len = saturating_product(columns, kv.page_size);
  if (kv.max_len > 0) spec.max_len = std::min<int64_t>(spec.max_len, shard_count(spec.shard, kv.max_len));
  return {};
}

Status bind_kv_store(const char* name, const fovea_kv& kv, const KvSpec& spec, KvView& view_) {
  const bool needed = kv.pages > 0;
  view_.spec = spec;
  view_.pages = kv.pages;
  FOVEA_TRY(bind_side(Field(name, ".k"), kv.k, spec.k, needed, view_.k, view_.k_scale));
  if (spec.record_version > 0 && reinterpret_cast<uintptr_t>(view_.k.base) % kRecordAlign != 0) {
    return invalid_value(Field(name, ".k.data.base"), "misaligned", "must be a multiple of 128 bytes in records");
  }
  if (spec.v_in_k) {
    view_.v = view_.k;
    view_.v_scale = view_.k_scale;
  } else {
    FOVEA_TRY(bind_side(Field(name, ".v"), kv.v, spec.v, needed, view_.v, view_.v_scale));
  }
  if (spec.d_rope == 0) return {};
  return bind_stream(Field(name, ".k_rope"), kv.k_rope, needed, dtype_block_bytes(spec.rope_dtype), view_.k_rope);
}

Status bind_kv_sequences(const char* name, const fovea_kv& kv, KvView& view_) {
  const struct {
    const char* field;
    const fovea_tensor& tensor;
    IndexView& view;
  } tensors[] = {{".page_table", kv.page_table, view_.page_table},
                 {".v_page_table", kv.v_page_table, view_.v_page_table},
                 {".page_indptr", kv.page_indptr, view_.page_indptr},
                 {".kv_lens", kv.kv_lens, view_.kv_lens},
                 {".starts", kv.starts, view_.starts},
                 {".cu_seqlens_kv", kv.cu_seqlens_kv, view_.cu_seqlens_kv}};
  for (const auto& [field, tensor, to] : tensors) {
    // Absent ones stay absent, and cost no string.
    if (!present(tensor)) continue;
    if (tensor.data == nullptr) FOVEA_TRY(check_data(Field(name, field), tensor));
    to = index_view(tensor);
  }
  return {};
}

bool kv_fits(const KvSpec& planned, const KvSpec& now) {
  KvSpec same = now;
  same.max_len = planned.max_len;
  return same == planned && now.max_len <= planned.max_len;
}

}  // namespace fovea
