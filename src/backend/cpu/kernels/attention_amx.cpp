// SPDX-License-Identifier: Apache-2.0
// The only file with tile instructions.
#include "backend/cpu/kernels/attention_amx.h"

#if FOVEA_CPU_AMX
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fovea::cpu {

#if FOVEA_CPU_AMX

namespace {

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  Cpuid(unsigned leaf, unsigned subleaf) { __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx); }
};

uint64_t enabled_states() {
  if (!(Cpuid(1, 0).ecx >> 27 & 1)) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool is_there() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if ((Cpuid(7, 0).edx & (kAmxBf16 | kAmxTile)) != (kAmxBf16 | kAmxTile)) return false;
  constexpr uint64_t kTileStates = 3u << 17;
  if ((enabled_states() & kTileStates) != kTileStates) return false;
  // Palette 1: bytes of a row, registers, rows.
  const Cpuid palette(0x1D, 1);
  if ((palette.ebx & 0xFFFF) < 64 || palette.ebx >> 16 < 8 || (palette.ecx & 0xFFFF) < 16) return false;
  // Linux gives a process the registers' memory when it asks (Documentation/arch/x86/xstate.rst).
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace

bool amx_usable() {
  static const bool usable = is_there();
  return usable;
}

#define FOVEA_AMX __attribute__((target("amx-tile,amx-bf16")))

FOVEA_AMX void amx_begin() {
  static constexpr TileShapes kShapes;
  _tile_loadconfig(&kShapes);
}

FOVEA_AMX void amx_end() {
  _tile_release();
}

namespace {

template <int kKeys, int kRows>
FOVEA_AMX void scores(const AmxKeys* k, const uint16_t* q, int steps, float* x) {
  constexpr size_t kBytes = kAmxPair * sizeof(float);
  const size_t tile_row = static_cast<size_t>(steps) * kAmxElements;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int s = 0; s < steps; ++s, q += kAmxElements) {
    _tile_loadd(4, k[0].p + s * 64, k[0].stride);
    _tile_loadd(6, q, 64);
    if constexpr (kKeys == 2) _tile_loadd(5, k[1].p + s * 64, k[1].stride);
    if constexpr (kRows == 2) _tile_loadd(7, q + tile_row, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRows == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kKeys == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kKeys == 2 && kRows == 2) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, x, kBytes);
  if constexpr (kRows == 2) _tile_stored(1, x + kAmxRows, kBytes);
  if constexpr (kKeys == 2) _tile_stored(2, x + kAmxRows * kAmxPair, kBytes);
  if constexpr (kKeys == 2 && kRows == 2) _tile_stored(3, x + kAmxRows * kAmxPair + kAmxRows, kBytes);
}

// The tiles of weights stay in registers: 4 and 5 of the first 16 rows, 6 and 7 of the others.
template <int kSteps, int kRows>
FOVEA_AMX void values(const uint16_t* w, const uint16_t* v, int dim_tiles, float* sums) {
  constexpr size_t kBytes = kAmxDims * sizeof(float);
  _tile_loadd(4, w, 64);
  if constexpr (kSteps == 2) _tile_loadd(5, w + kAmxElements, 64);
  if constexpr (kRows == 2) _tile_loadd(6, w + 2 * kAmxElements, 64);
  if constexpr (kRows == 2 && kSteps == 2) _tile_loadd(7, w + 3 * kAmxElements, 64);
  for (int d = 0; d < dim_tiles; ++d, v += 2 * kAmxElements, sums += kAmxRows) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, v, 64);
    if constexpr (kSteps == 2) _tile_loadd(3, v + kAmxElements, 64);
    _tile_dpbf16ps(0, 4, 2);
    if constexpr (kRows == 2) _tile_dpbf16ps(1, 6, 2);
    if constexpr (kSteps == 2) _tile_dpbf16ps(0, 5, 3);
    if constexpr (kRows == 2 && kSteps == 2) _tile_dpbf16ps(1, 7, 3);
    _tile_stored(0, sums, kBytes);
    if constexpr (kRows == 2) _tile_stored(1, sums + kAmxRows * kAmxDims, kBytes);
  }
}

}  // namespace

void amx_scores(const AmxKeys* k, int count, const uint16_t* q, int steps, int row_tiles, float* x) {
  if (row_tiles == 2) return count == 2 ? scores<2, 2>(k, q, steps, x) : scores<1, 2>(k, q, steps, x);
  return count == 2 ? scores<2, 1>(k, q, steps, x) : scores<1, 1>(k, q, steps, x);
}

void amx_values(const uint16_t* w, const uint16_t* v, int first, int last, int row_tiles, int dim_tiles, float* sums) {
  w += static_cast<size_t>(first) * kAmxElements;
  v += static_cast<size_t>(first) * kAmxElements;
  if (row_tiles == 2)
    return last - first == 2 ? values<2, 2>(w, v, dim_tiles, sums) : values<1, 2>(w, v, dim_tiles, sums);
  return last - first == 2 ? values<2, 1>(w, v, dim_tiles, sums) : values<1, 1>(w, v, dim_tiles, sums);
}

#undef FOVEA_AMX

#else

bool amx_usable() {
  return false;
}

#endif

}  // namespace fovea::cpu
