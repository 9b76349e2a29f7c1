// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_copy.h"

#include <algorithm>

#include "ops/kv.h"

namespace fovea {

namespace {

Status check_same(const char* name, int64_t dst, int64_t src) {
  if (dst == src) return {};
  return invalid_value(std::string("dst.") + name, dst,
                       "must be " + std::to_string(src) + " (src." + std::string(name) + ")");
}

Status check_same_side(const char* side, const KvSideSpec& dst, const KvSideSpec& src) {
  if (dst == src) return {};
  return invalid_value(std::string("dst.") + side, "of another codec or scale kind, type or group",
                       std::string("must be stored as src.") + side);
}

Status check_same_store(const KvSpec& dst, const KvSpec& src) {
  FOVEA_TRY(check_same("heads", dst.heads, src.heads));
  FOVEA_TRY(check_same("d_k", dst.d_k, src.d_k));
  FOVEA_TRY(check_same("d_v", dst.d_v, src.d_v));
  FOVEA_TRY(check_same("page_size", dst.page_size, src.page_size));
  FOVEA_TRY(check_same("v_in_k", dst.v_in_k, src.v_in_k));
  FOVEA_TRY(check_same("d_rope", dst.d_rope, src.d_rope));
  FOVEA_TRY(check_same("rope_dtype", static_cast<int>(dst.rope_dtype), static_cast<int>(src.rope_dtype)));
  FOVEA_TRY(check_same("record_version", dst.record_version, src.record_version));
  if (dst.prescale != src.prescale) {
    return invalid_value("dst.prescale", format_float(dst.prescale), "must be src.prescale");
  }
  FOVEA_TRY(check_same_side("k", dst.k, src.k));
  return check_same_side("v", dst.v, src.v);
}

void add_stream(KvCopyArgs& args, const KvStream& src, const KvStream& dst, int64_t bytes) {
  args.stream[args.streams++] = {.src = src, .dst = dst, .bytes = bytes};
}

// The elements of one side and, where each token has scales of its own, those.
void add_side(KvCopyArgs& args, const KvSideSpec& side, int dims, const KvStream& src, const KvStream& dst,
              const KvStream& src_scale, const KvStream& dst_scale) {
  const KvSpec& kv = args.spec.kv;
  add_stream(args, src, dst, kv_row_bytes(side, dims, 0));
  if (const int second = kv_row_bytes(side, dims, 1); second > 0) {
    add_stream(args, kv_second_plane(kv, side, src, dims), kv_second_plane(kv, side, dst, dims), second);
  }
  const int64_t scale_bytes = dtype_block_bytes(side.scale_dtype);
  if (side.scale_kind == ScaleKind::token_head) add_stream(args, src_scale, dst_scale, scale_bytes);
  if (side.scale_kind == ScaleKind::group) {
    add_stream(args, src_scale, dst_scale, (dims + side.scale_group - 1) / side.scale_group * scale_bytes);
  }
}

}  // namespace

Status KvCopyOp::check(const Params& p, const Caps& caps, Spec& spec) {
  FOVEA_TRY(check_struct("params", &p));
  spec = {};
  FOVEA_TRY(check_kv_store("src", p.src, spec.kv));
  KvSpec dst;
  FOVEA_TRY(check_kv_store("dst", p.dst, dst));
  FOVEA_TRY(check_same_store(dst, spec.kv));
  FOVEA_TRY(check_tensor("copies", p.copies, kIndexTypes, 2, 2, place(caps), LastStride::any));
  FOVEA_TRY(check_dim("copies", p.copies, 1, 2, "source and destination"));
  spec.copies = p.copies.shape[0];
  return {};
}

Status KvCopyOp::fits(const Spec& planned, const Spec& now) {
  FOVEA_TRY(at_most_planned("copies.shape[0]", now.copies, planned.copies));
  return kv_fits(planned.kv, now.kv) ? Status() : other_than_planned("kv_copy");
}

Status KvCopyOp::bind(const Params& p, const Spec& spec, Args& args) {
  FOVEA_TRY(check_data("copies", p.copies));
  KvView src, dst;
  FOVEA_TRY(bind_kv_store("src", *p.src, spec.kv, src));
  FOVEA_TRY(bind_kv_store("dst", *p.dst, spec.kv, dst));
  args = {};
  args.spec = spec;
  args.copies = view(p.copies);
  args.src_pages = src.pages;
  args.dst_pages = dst.pages;
  args.same_cache = src.k.base == dst.k.base && src.k.page_stride == dst.k.page_stride;
  const KvSpec& kv = spec.kv;
  add_side(args, kv.k, kv.d_k - kv.d_rope, src.k, dst.k, src.k_scale, dst.k_scale);
  if (!kv.v_in_k) add_side(args, kv.v, kv.d_v, src.v, dst.v, src.v_scale, dst.v_scale);
  if (kv.d_rope > 0) {
    add_stream(args, src.k_rope, dst.k_rope, int64_t{kv.d_rope} * dtype_block_bytes(kv.rope_dtype));
  }
  return {};
}

}  // namespace fovea
