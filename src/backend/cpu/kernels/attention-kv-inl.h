// SPDX-License-Identifier: Apache-2.0
// Keys and values of a tile as rows of f32: in place where they are f32 already, else converted a chunk at a time.
// Tokens that no row sees are never read; their rows are zeros. Included once per Highway target.
#if defined(FOVEA_CPU_ATTENTION_KV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_ATTENTION_KV_INL_H_
#undef FOVEA_CPU_ATTENTION_KV_INL_H_
#else
#define FOVEA_CPU_ATTENTION_KV_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/kernels/convert-inl.h"
#include "backend/cpu/kernels/grid-inl.h"
#include "shared/params/attention.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

alignas(64) inline constexpr float kZeroRow[kMaxHeadDim + kBlockRowStep] = {};

// to[0, n) = from[0, n) as f32, times scale. The last vector may be stored past n. Returns x * 0 summed: 0 in every
// lane, or NaN where something was not finite.
template <class Type>
HWY_INLINE F32Vec ConvertAs(Type type, const char* from, i64_t n, float scale, float* to) {
  const F32Tag d;
  const i64_t step = static_cast<i64_t>(hn::Lanes(d));
  const F32Vec factor = hn::Set(d, scale), zero = hn::Zero(d);
  F32Vec finite = zero;
  i64_t i = 0;
  const auto put = [&](F32Vec x) HWY_ATTR {
    x = hn::Mul(x, factor);
    finite = hn::MulAdd(x, zero, finite);
    hn::StoreU(x, d, to + i);
  };
  for (; i + step <= n; i += step) put(LoadF32(type, d, from + i * static_cast<i64_t>(sizeof(typename Type::Raw))));
  if (i < n) {
    put(LoadF32Part(type, d, from + i * static_cast<i64_t>(sizeof(typename Type::Raw)), static_cast<size_t>(n - i)));
  }
  return finite;
}

inline F32Vec Convert(Dtype type, const char* from, i64_t n, float scale, float* to) {
  return WithFloatType(type, [&](auto t) HWY_ATTR { return ConvertAs(t, from, n, scale, to); });
}

inline bool IsZero(F32Vec x) {
  const F32Tag d;
  return hn::AllTrue(d, hn::Eq(x, hn::Zero(d)));
}

// One side of one segment, for one sequence and kv head.
struct TileSide {
  const KvView* kv;
  const IndexView* table;
  const KvStream* data;
  const KvStream* scale;
  const KvSideSpec* spec;
  i64_t b;
  i64_t head;
  i64_t dims;       // of data
  i64_t rope_dims;  // K only: unscaled dims after them, from kv->k_rope
  KvStream second;  // plane of a grid, where it has one

  i64_t width() const { return dims + rope_dims; }
  bool is_grid() const { return codec_is_grid(spec->codec); }
  bool has_second() const { return is_grid() && grid_planes(codec_grid(spec->codec)).bits[1] > 0; }
  // On stored scales: of grids the cache's own, and what rotations left out.
  float prescale() const { return is_grid() ? kv->spec.prescale / std::sqrt(static_cast<float>(dims)) : 1.0f; }
  // May rows be used where they lie? `over` says how far a row is read: whole vectors, or dims only.
  bool in_place(i64_t over) const {
    return spec->codec == Codec::f32 && spec->scale_kind != ScaleKind::group && rope_dims == 0 && dims % over == 0;
  }
  // Are scales applied to elements as they are converted, and not to logits or weights? Where one vector has several,
  // or a part that is not scaled.
  bool scaled_rows() const { return spec->scale_kind == ScaleKind::group || rope_dims > 0; }
  float constant_scale() const { return kv_scale(*spec, *scale, {}, head); }
};

inline KvStream SecondPlane(const KvView& kv, const KvSideSpec& spec, const KvStream& data, int dims) {
  return codec_is_grid(spec.codec) ? kv_second_plane(kv.spec, spec, data, dims) : KvStream();
}

inline TileSide KeySide(const AttentionArgs& a, int s, i64_t b, i64_t head) {
  const KvView& kv = a.kv[s];
  return {.kv = &kv,
          .table = &kv.page_table,
          .data = &kv.k,
          .scale = &kv.k_scale,
          .spec = &kv.spec.k,
          .b = b,
          .head = head,
          .dims = kv.spec.d_k - kv.spec.d_rope,
          .rope_dims = kv.spec.d_rope,
          .second = SecondPlane(kv, kv.spec.k, kv.k, kv.spec.d_k - kv.spec.d_rope)};
}

inline TileSide ValueSide(const AttentionArgs& a, int s, i64_t b, i64_t head) {
  const KvView& kv = a.kv[s];
  return {.kv = &kv,
          .table = &kv_v_table(kv),
          .data = &kv.v,
          .scale = &kv.v_scale,
          .spec = &kv.spec.v,
          .b = b,
          .head = head,
          .dims = kv.spec.d_v,
          .rope_dims = 0,
          .second = SecondPlane(kv, kv.spec.v, kv.v, kv.spec.d_v)};
}

// Calls body(k, slot) for the tokens first + k, k in [begin, end), whose bit of `seen` is set.
template <class Body>
HWY_INLINE void ForSeen(const TileSide& side, i64_t first, int begin, int end, u64_t seen, const Body& body) {
  // Runs of ones, so that the page of an unseen token is not looked up.
  for (int k = begin; k < end;) {
    if (!(seen >> k & 1)) {
      ++k;
      continue;
    }
    int stop = k + 1;
    while (stop < end && (seen >> stop & 1)) ++stop;
    kv_for_tokens(*side.kv, *side.table, side.b, first + k, stop - k,
                  [&](i64_t i, KvSlot slot) HWY_ATTR { body(k + static_cast<int>(i), slot); });
    k = stop;
  }
}

// rows[k] for k in [begin, end): where the vector lies.
inline void PointAtRows(const TileSide& side, i64_t first, int begin, int end, u64_t seen, const char** rows) {
  for (int k = begin; k < end; ++k) rows[k] = reinterpret_cast<const char*>(kZeroRow);
  ForSeen(side, first, begin, end, seen,
          [&](int k, KvSlot slot) HWY_ATTR { rows[k] = kv_address(*side.data, slot, side.head); });
}

// rows[k]: where the vector of token first + k lies, zeros from `end` on and for ids that are no page (a packed mask
// may hide such tokens).
inline void PointAhead(const TileSide& side, i64_t first, i64_t end, const char** rows) {
  const i64_t count = at_least(0, at_most(end - first, kTileKeys));
  for (i64_t k = count; k < kTileKeys; ++k) rows[k] = reinterpret_cast<const char*>(kZeroRow);
  const bool paged = side.kv->spec.layout == KvLayout::paged || side.kv->spec.layout == KvLayout::paged_csr;
  for (i64_t k = 0; k < count;) {
    const KvSlot slot = kv_locate(*side.kv, *side.table, side.b, first + k);
    const i64_t stop = paged ? at_most(count, k + side.kv->spec.page_size - slot.offset) : count;
    const bool page = slot.page >= 0 && slot.page < side.kv->pages;
    const char* p = page ? kv_address(*side.data, slot, side.head) : reinterpret_cast<const char*>(kZeroRow);
    const i64_t step = page ? side.data->token_stride : 0;
    for (; k < stop; ++k, p += step) rows[k] = p;
  }
}

// Is no element of e4m3 vectors NaN?
inline bool NoneIsNan(const char* const* rows, int count, i64_t dims) {
  const hn::Repartition<uint8_t, F32Tag> d;
  const auto most = hn::Set(d, static_cast<uint8_t>(0x7F));
  const i64_t n = static_cast<i64_t>(hn::Lanes(d));
  auto top = hn::Zero(d);
  bool none = true;
  for (int k = 0; k < count; ++k) {
    const auto* p = reinterpret_cast<const uint8_t*>(rows[k]);
    i64_t i = 0;
    for (; i + n <= dims; i += n) top = hn::Max(top, hn::And(hn::LoadU(d, p + i), most));
    for (; i < dims; ++i) none &= (p[i] & 0x7F) != 0x7F;
  }
  return none && hn::AllFalse(d, hn::Eq(top, most));
}

// WithFloatType for these vectors, with a quicker one of e4m3 where it serves; `small`: SmallE4m3 does.
template <class Body>
HWY_INLINE void WithElementType(Dtype type, bool small, const char* const* rows, int count, i64_t dims,
                                const Body& body) {
  if (type != Dtype::e4m3 || !NoneIsNan(rows, count, dims)) {
    WithFloatType(type, body);
  } else if (small) {
    body(SmallE4m3());
  } else {
    body(FiniteE4m3());
  }
}

// Levels of a vector, times scale.
inline void ConvertLevels(const TileSide& side, KvSlot slot, float scale, float* to) {
  const F32Tag d;
  const auto* low = reinterpret_cast<const u8_t*>(kv_address(*side.data, slot, side.head));
  const auto* high = reinterpret_cast<const u8_t*>(kv_address(side.second, slot, side.head));
  WithGrid(codec_grid(side.spec->codec), [&](auto grid) HWY_ATTR {
    for (i64_t i = 0; i < side.dims; i += static_cast<i64_t>(hn::Lanes(d))) {
      const F32Vec level = LoadLevels<decltype(grid)::value>(low, high, static_cast<int>(i));
      hn::StoreU(hn::Mul(level, hn::Set(d, scale)), d, to + i);
    }
  });
}

inline F32Vec ConvertRow(const TileSide& side, KvSlot slot, float* to) {
  const Dtype type = codec_dtype(side.spec->codec);
  const char* from = kv_address(*side.data, slot, side.head);
  F32Vec finite = hn::Zero(F32Tag());
  if (side.is_grid()) {
    const float scale =
        side.scaled_rows() ? side.prescale() * kv_scale(*side.spec, *side.scale, slot, side.head) : 1.0f;
    ConvertLevels(side, slot, scale, to);
  } else if (side.spec->scale_kind == ScaleKind::group) {
    const i64_t group = side.spec->scale_group;
    for (i64_t i = 0; i < side.dims; i += group) {
      const float scale = kv_scale(*side.spec, *side.scale, slot, side.head, static_cast<int>(i / group));
      const i64_t n = at_most(group, side.dims - i);
      finite = hn::Add(finite, Convert(type, from + i * dtype_block_bytes(type), n, scale, to + i));
    }
  } else {
    const float scale = side.scaled_rows() ? kv_scale(*side.spec, *side.scale, slot, side.head) : 1.0f;
    finite = Convert(type, from, side.dims, scale, to);
  }
  if (side.rope_dims > 0) {
    Convert(side.kv->spec.rope_dtype, kv_address(side.kv->k_rope, slot, side.head), side.rope_dims, 1.0f,
            to + side.dims);
  }
  return finite;
}

// The same, converted into `buffer`, rows of attention_padded(width) floats. Returns whether all are finite.
inline bool ConvertRows(const TileSide& side, i64_t first, int begin, int end, u64_t seen, float* buffer,
                        const char** rows) {
  const i64_t stride = attention_padded(side.width());
  F32Vec finite = hn::Zero(F32Tag());
  for (int k = begin; k < end; ++k) rows[k] = reinterpret_cast<const char*>(kZeroRow);
  // Ascending, because a row's last vector may reach into the next one.
  ForSeen(side, first, begin, end, seen, [&](int k, KvSlot slot) HWY_ATTR {
    float* to = buffer + (k - begin) * stride;
    finite = hn::Add(finite, ConvertRow(side, slot, to));
    rows[k] = reinterpret_cast<const char*>(to);
  });
  return IsZero(finite);
}

// Is every vector finite where it lies?
inline bool RowsAreFinite(const char* const* rows, int begin, int end, i64_t dims) {
  const F32Tag d;
  const F32Vec zero = hn::Zero(d);
  F32Vec finite = zero;
  for (int k = begin; k < end; ++k) {
    for (i64_t i = 0; i < dims; i += static_cast<i64_t>(hn::Lanes(d))) {
      finite = hn::MulAdd(LoadF32(F32(), d, rows[k] + i * static_cast<i64_t>(sizeof(float))), zero, finite);
    }
  }
  return IsZero(finite);
}

// scales[k] for k in [begin, end), times `factor`; 0 for tokens that no row sees.
inline void TileScales(const TileSide& side, i64_t first, int begin, int end, u64_t seen, float factor, float* scales) {
  if (side.scaled_rows() || side.spec->scale_kind != ScaleKind::token_head) {
    const float scale = side.scaled_rows() ? factor : factor * side.constant_scale();
    for (int k = begin; k < end; ++k) scales[k] = scale;
    return;
  }
  for (int k = begin; k < end; ++k) scales[k] = 0;
  factor *= side.prescale();
  ForSeen(side, first, begin, end, seen, [&](int k, KvSlot slot) HWY_ATTR {
    scales[k] = factor * kv_scale(*side.spec, *side.scale, slot, side.head);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#endif
