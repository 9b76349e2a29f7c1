// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_record.h"

#include <cmath>
#include <string>

#include "ops/kv.h"
#include "shared/kv/record.h"
#include "shared/kv/rotation.h"

namespace fovea {

namespace {

constexpr int64_t kMostRecordDims = 1 << 16;  // so that 32 bits count the bytes of a row

int main_dims(const KvSpec& spec) {
  return spec.d_k - spec.d_rope;
}

bool has_grid(const KvSpec& spec) {
  return codec_is_grid(spec.k.codec) || (!spec.v_in_k && codec_is_grid(spec.v.codec));
}

RecordSide side_of_record(const KvSideSpec& side, int dims) {
  const int scale_bytes = side.scale_kind == ScaleKind::token_head ? dtype_block_bytes(side.scale_dtype) : 0;
  return {{kv_row_bytes(side, dims, 0), kv_row_bytes(side, dims, 1)}, scale_bytes};
}

RecordLayout layout_of(const KvSpec& spec) {
  const RecordSide v = spec.v_in_k ? RecordSide{} : side_of_record(spec.v, spec.d_v);
  const int rope_bytes = spec.d_rope > 0 ? spec.d_rope * dtype_block_bytes(spec.rope_dtype) : 0;
  return record_layout(spec.page_size, side_of_record(spec.k, main_dims(spec)), v, rope_bytes);
}

// `dims_name` is `all`, `dims` of which are codes.
Status check_grid(const char* name, const char* dims_name, int all_dims, const KvSideSpec& side, int dims) {
  const std::string codec = find_codec(static_cast<int>(side.codec))->name;
  if (side.scale_kind != ScaleKind::token_head) {
    return invalid_value(Field(name, ".scale_kind"), find_scale_kind(static_cast<int>(side.scale_kind))->name,
                         "must be token_head for codec " + codec);
  }
  if (side.scale_dtype != Dtype::f16 && side.scale_dtype != Dtype::f32) {
    return invalid_type(Field(name, ".scale_dtype"), static_cast<int32_t>(side.scale_dtype),
                        "must be f16 or f32 for codec " + codec);
  }
  if (find_rotation(dims) != nullptr) return {};
  std::string all;
  for (const Rotation& r : kRotations) all += (all.empty() ? "" : ", ") + std::to_string(r.d);
  const std::string rest = dims == all_dims ? "" : "; without d_rope it is " + std::to_string(dims);
  return invalid_value(dims_name, all_dims, "codec " + codec + " rotates vectors of " + all + rest);
}

Status check_record_stream(const char* name, const fovea_kv_stream& s, int row_bytes) {
  if (s.token_stride != row_bytes) {
    return invalid_value(Field(name, ".token_stride"), s.token_stride,
                         "must be " + std::to_string(row_bytes) + " bytes in records");
  }
  const char* why = "must be a multiple of 128 bytes in records";
  if (s.page_stride % kRecordAlign != 0) return invalid_value(Field(name, ".page_stride"), s.page_stride, why);
  if (s.head_stride % kRecordAlign != 0) return invalid_value(Field(name, ".head_stride"), s.head_stride, why);
  return {};
}

Status check_record_side(const char* name, const fovea_kv_side& side, const KvSideSpec& spec, int dims) {
  FOVEA_TRY(check_record_stream(Field(name, ".data"), side.data, kv_row_bytes(spec, dims, 0)));
  if (spec.scale_kind != ScaleKind::token_head) return {};
  return check_record_stream(Field(name, ".scale"), side.scale, dtype_block_bytes(spec.scale_dtype));
}

Status check_prescale(const char* name, const fovea_kv& kv, bool grid) {
  if (!grid && kv.prescale != 1.0f) {
    return invalid_value(Field(name, ".prescale"), format_float(kv.prescale), "only codecs i8 to q2 have it");
  }
  int exponent = 0;
  if (kv.prescale > 0 && std::isfinite(kv.prescale) && std::frexp(kv.prescale, &exponent) == 0.5f) return {};
  return invalid_value(Field(name, ".prescale"), format_float(kv.prescale), "must be a power of two");
}

// What holds of records wherever they lie.
Status check_record_shape(const char* name, const fovea_kv& kv, const KvSpec& spec) {
  if (!is_record_page(kv.page_size)) {
    return invalid_value(Field(name, ".page_size"), kv.page_size, "must be 16, 32, 64 or 128 in records");
  }
  for (const auto& [field, dims] : {std::pair{".d_k", kv.d_k}, {".d_v", kv.d_v}}) {
    if (dims > kMostRecordDims) {
      return invalid_value(Field(name, field), dims,
                           "must be at most " + std::to_string(kMostRecordDims) + " in records");
    }
  }
  if (spec.v_in_k && codec_is_grid(spec.k.codec)) {
    return unsupported(std::string(name) + ".v_in_k is 1: V is no part of K of codec " +
                       find_codec(static_cast<int>(spec.k.codec))->name + " in this version");
  }
  if (codec_is_grid(spec.k.codec)) {
    FOVEA_TRY(check_grid(Field(name, ".k"), Field(name, ".d_k"), spec.d_k, spec.k, main_dims(spec)));
  }
  if (!spec.v_in_k && codec_is_grid(spec.v.codec)) {
    FOVEA_TRY(check_grid(Field(name, ".v"), Field(name, ".d_v"), spec.d_v, spec.v, spec.d_v));
  }
  const char* grouped = spec.k.scale_kind == ScaleKind::group                   ? ".k.scale_kind"
                        : !spec.v_in_k && spec.v.scale_kind == ScaleKind::group ? ".v.scale_kind"
                                                                                : nullptr;
  if (grouped == nullptr) return {};
  return invalid_value(Field(name, grouped), "group", "must be another kind: records have no scales of groups");
}

// No record lies in another one.
Status check_distances(const char* name, const fovea_kv_stream& s, const fovea_kv& kv, int64_t record_bytes) {
  const struct {
    const char* field;
    int64_t stride, count;
  } strides[] = {{".page_stride", s.page_stride, kv.pages}, {".head_stride", s.head_stride, kv.heads}};
  for (const auto& [field, stride, count] : strides) {
    if (count > 1 && stride < record_bytes && -stride < record_bytes) {
      return invalid_value(
          Field(name, field), stride,
          "must be at least the " + std::to_string(record_bytes) + " bytes of a record, of either sign");
    }
  }
  return {};
}

}  // namespace

Status check_kv_records(const char* name, const fovea_kv& kv, KvSpec& spec) {
  const bool grid = has_grid(spec);
  FOVEA_TRY(check_prescale(name, kv, grid));
  if (kv.record_version == 0) {
    if (!grid) return {};
    const Codec codec = codec_is_grid(spec.k.codec) ? spec.k.codec : spec.v.codec;
    return invalid_value(Field(name, ".record_version"), 0,
                         std::string("codec ") + find_codec(static_cast<int>(codec))->name +
                             " lies in records, which fovea_kv_record lays out");
  }
  if (kv.record_version != kRecordVersion) {
    return invalid_value(
        Field(name, ".record_version"), kv.record_version,
        "must be 0 or " + std::to_string(kRecordVersion) + ": records of other versions cannot be read");
  }
  FOVEA_TRY(check_record_shape(name, kv, spec));
  FOVEA_TRY(check_record_side(Field(name, ".k"), kv.k, spec.k, main_dims(spec)));
  const int64_t bytes = layout_of(spec).bytes;
  FOVEA_TRY(check_distances(Field(name, ".k.data"), kv.k.data, kv, bytes));
  if (!spec.v_in_k) FOVEA_TRY(check_distances(Field(name, ".v.data"), kv.v.data, kv, bytes));
  if (!spec.v_in_k) FOVEA_TRY(check_record_side(Field(name, ".v"), kv.v, spec.v, spec.d_v));
  if (spec.d_rope > 0) {
    FOVEA_TRY(check_record_stream(Field(name, ".k_rope"), kv.k_rope, spec.d_rope * dtype_block_bytes(spec.rope_dtype)));
  }
  spec.record_version = kv.record_version;
  spec.prescale = kv.prescale;
  return {};
}

Status lay_out_records(fovea_kv* kv, void* records, int64_t* bytes) {
  KvSpec spec;
  if (kv == nullptr) return check_kv_parts("kv", kv, spec);
  fovea_kv bare = *kv;  // whatever the streams are now
  bare.k.data = bare.v.data = bare.k_rope = {};
  if (kv->k.scale_kind == FOVEA_SCALE_TOKEN_HEAD) bare.k.scale = {};
  if (kv->v.scale_kind == FOVEA_SCALE_TOKEN_HEAD) bare.v.scale = {};
  FOVEA_TRY(check_kv_parts("kv", &bare, spec));
  FOVEA_TRY(check_prescale("kv", bare, has_grid(spec)));
  FOVEA_TRY(check_record_shape("kv", bare, spec));
  if (reinterpret_cast<uintptr_t>(records) % kRecordAlign != 0) {
    return invalid_value("records", "misaligned", "must be a multiple of 128 bytes");
  }
  const RecordLayout layout = layout_of(spec);
  int64_t page = 0, all = 0;
  if (__builtin_mul_overflow(layout.bytes, static_cast<int64_t>(spec.heads), &page) ||
      __builtin_mul_overflow(page, kv->pages, &all)) {
    return invalid_value("kv.pages", kv->pages, "the pool has more bytes than 64 bits count");
  }
  const auto stream = [&](int64_t start, int row_bytes) {
    return fovea_kv_stream{.base = records == nullptr ? nullptr : static_cast<char*>(records) + start,
                           .page_stride = page,
                           .token_stride = row_bytes,
                           .head_stride = layout.bytes};
  };
  const auto side = [&](fovea_kv_side& out, const KvSideSpec& s, int dims, int64_t start, int64_t scale_start) {
    out.data = stream(start, kv_row_bytes(s, dims, 0));
    if (s.scale_kind == ScaleKind::token_head) out.scale = stream(scale_start, dtype_block_bytes(s.scale_dtype));
  };
  side(kv->k, spec.k, main_dims(spec), layout.k_plane[0], layout.k_scale);
  if (!spec.v_in_k) side(kv->v, spec.v, spec.d_v, layout.v_plane[0], layout.v_scale);
  if (spec.d_rope > 0) kv->k_rope = stream(layout.k_rope, spec.d_rope * dtype_block_bytes(spec.rope_dtype));
  kv->record_version = kRecordVersion;
  if (bytes != nullptr) *bytes = all;
  return {};
}

}  // namespace fovea
