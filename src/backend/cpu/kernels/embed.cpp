// SPDX-License-Identifier: Apache-2.0
// out[t] = scale * table[ids[t]]: decoded to f32, one product, one rounding.
#include "backend/cpu/kernels/embed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/embed.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "backend/cpu/kernels/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu {
namespace HWY_NAMESPACE {

constexpr i64_t kPiece = 256;  // elements decoded together: whole blocks of every weight type

void EmbedRows(const EmbedArgs& a, i64_t first, i64_t last) {
  const F32Tag d;
  HWY_ALIGN float piece[kPiece];
  for (i64_t t = first; t < last; ++t) {
    const i64_t id = index_at(a.ids, t);
    for (i64_t i = 0; i < a.spec.n; i += kPiece) {
      const i64_t count = a.spec.n - i < kPiece ? a.spec.n - i : kPiece;
      DecodeWeights({a.table, a.table_scale, a.spec.scale_kind}, id, i, count, piece);
      char* to = row(a.out, t, i);
      ForLanes(count, [&](i64_t j, size_t lanes) {
        PutLanes(a.out.dtype, hn::Mul(hn::LoadU(d, piece + j), hn::Set(d, a.scale)), to, j, lanes);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(EmbedRows);

void embed_rows(const Isa& isa, const EmbedArgs& args, i64_t first, i64_t last) {
  FOVEA_CPU_KERNEL(isa, EmbedRows)(args, first, last);
}

}  // namespace fovea::cpu
#endif
