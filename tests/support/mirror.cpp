// SPDX-License-Identifier: Apache-2.0
#include "support/mirror.h"

#include <algorithm>
#include <cstring>

namespace fovea::test {
namespace {

constexpr size_t kAlign = 256;  // of the device's allocations
constexpr size_t kZone = 512;   // poisoned bytes between two pieces

size_t lead_of(const std::byte* host) {
  return reinterpret_cast<uintptr_t>(host) % kAlign;
}

bool all_zero(const std::byte* p, size_t n) {
  return n == 0 || (p[0] == std::byte{0} && std::memcmp(p, p + 1, n - 1) == 0);
}

std::string at_byte(const std::string& name, size_t i, size_t size) {
  return name + ", byte " + std::to_string(i) + " of " + std::to_string(size);
}

}  // namespace

Mirror::~Mirror() {
  static_cast<void>(device_.finish());
  for (const Piece& piece : pieces_) device_.release(piece.own);
  device_.release(arena_);
  device_.release(late_);
}

bool Mirror::add(const std::string& name, const void* host, Use use) {
  const Region region = region_of(host);
  if (region.data == nullptr) return false;
  for (Piece& piece : pieces_) {
    if (piece.host.data != region.data) continue;
    if (use > piece.use) piece.use = use, piece.name = name;
    return true;
  }
  pieces_.push_back({name, region, use});
  return true;
}

bool Mirror::place_alone(Piece& piece) {
  const size_t lead = piece.host.sparse ? 0 : lead_of(piece.host.data);
  const size_t bytes = lead + piece.host.size;
  piece.own = piece.host.sparse ? device_.allocate_zeroed(bytes) : device_.allocate(bytes);
  piece.device = piece.own + lead;
  return piece.own != nullptr;
}

bool Mirror::place() {
  size_t end = kZone;
  for (Piece& piece : pieces_) {
    if (piece.host.sparse || separate_) {
      if (!place_alone(piece)) return false;
      continue;
    }
    piece.offset = (end + kAlign - 1) / kAlign * kAlign + lead_of(piece.host.data);
    end = piece.offset + piece.host.size + kZone;
  }
  arena_bytes_ = end;
  arena_ = device_.allocate(arena_bytes_);
  if (arena_ == nullptr) return false;
  for (Piece& piece : pieces_) {
    if (piece.own == nullptr) piece.device = arena_ + piece.offset;
  }
  return true;
}

void* Mirror::address(const void* host) const {
  const Region region = region_of(host);
  for (const Piece& piece : pieces_) {
    if (piece.host.data == region.data) return piece.device + (static_cast<const std::byte*>(host) - region.data);
  }
  return nullptr;
}

void Mirror::fill_image() {
  image_.assign(arena_bytes_, std::byte{kPoison});
  for (const Piece& piece : pieces_) {
    if (piece.host.sparse) {
      for (const Extent& e : resident(piece.host.data, piece.host.size)) {
        device_.write(piece.device + e.first, piece.host.data + e.first, e.size);
      }
    } else if (piece.own != nullptr) {
      device_.fill(piece.own, kPoison, static_cast<size_t>(piece.device - piece.own));
      device_.write(piece.device, piece.host.data, piece.host.size);
    } else if (piece.host.size > 0) {
      std::memcpy(image_.data() + piece.offset, piece.host.data, piece.host.size);
    }
  }
}

void Mirror::upload() {
  fill_image();
  device_.write(arena_, image_.data(), image_.size());
}

Mirror::LateCopy Mirror::put_off() {
  fill_image();
  if (late_ == nullptr) late_ = device_.allocate(arena_bytes_);
  if (late_ == nullptr) {
    device_.write(arena_, image_.data(), image_.size());
    return {};
  }
  device_.write(late_, image_.data(), image_.size());
  device_.fill(arena_, kPoison, arena_bytes_);
  static_cast<void>(device_.finish());
  return {arena_, late_, arena_bytes_};
}

void Mirror::upload_late() {
  const LateCopy copy = put_off();
  device_.delay();
  device_.copy(copy.to, copy.from, copy.bytes);
}

void Mirror::read_dense(const Piece& piece, const std::byte* got, std::vector<std::string>& faults) {
  const Region& host = piece.host;
  if (piece.use == Use::scratch || host.size == 0) return;
  if (piece.use == Use::output) {
    std::memcpy(host.data, got, host.size);
  } else if (std::memcmp(host.data, got, host.size) != 0) {
    const auto i = static_cast<size_t>(std::mismatch(got, got + host.size, host.data).first - got);
    faults.push_back("an input was written to: " + at_byte(piece.name, i, host.size));
  }
}

void Mirror::read_sparse(const Piece& piece, std::vector<std::string>& faults) {
  const Region& host = piece.host;
  std::vector<std::byte> got;
  const std::vector<Extent> there = resident(host.data, host.size);
  if (piece.use == Use::input) {  // an untouched page that was written to is not looked for
    for (const Extent& e : there) {
      got.resize(e.size);
      device_.read(got.data(), piece.device + e.first, e.size);
      const Piece part{.name = piece.name, .host = {host.data + e.first, e.size}, .use = Use::input};
      read_dense(part, got.data(), faults);
    }
    return;
  }
  constexpr size_t kChunk = size_t{16} << 20, kPage = 4096;
  size_t next = 0;  // of `there`
  for (size_t first = 0; first < host.size; first += kChunk) {
    const size_t n = std::min(kChunk, host.size - first);
    got.resize(n);
    device_.read(got.data(), piece.device + first, n);
    for (size_t page = 0; page < n; page += kPage) {
      const size_t at = first + page, bytes = std::min(kPage, n - page);
      while (next < there.size() && there[next].first + there[next].size <= at) ++next;
      const bool touched = next < there.size() && there[next].first <= at;
      if (touched || !all_zero(got.data() + page, bytes)) std::memcpy(host.data + at, got.data() + page, bytes);
    }
  }
}

// Between the pieces of the arena, and before a piece of its own, nothing may have changed.
void Mirror::check_zones(std::vector<std::string>& faults) {
  const auto look = [&](size_t from, size_t to, const std::string& where) {
    for (size_t i = from; i < to; ++i) {
      if (image_[i] == std::byte{kPoison}) continue;
      faults.push_back("written out of bounds " + where + ", byte " + std::to_string(i - from) + " of the zone");
      return;
    }
  };
  size_t from = 0;
  std::string before = "before ";
  for (const Piece& piece : pieces_) {
    if (piece.own != nullptr) continue;
    look(from, piece.offset, before + piece.name);
    from = piece.offset + piece.host.size;
    before = "behind " + piece.name + ", before ";
  }
  look(from, image_.size(), before + "the end");
}

std::vector<std::string> Mirror::download() {
  std::vector<std::string> faults;
  if (const std::string error = device_.finish(); !error.empty()) return {error};
  device_.read(image_.data(), arena_, image_.size());
  std::vector<std::byte> own;
  for (const Piece& piece : pieces_) {
    if (piece.host.sparse) {
      read_sparse(piece, faults);
    } else if (piece.own != nullptr) {
      own.resize(piece.host.size);
      device_.read(own.data(), piece.device, own.size());
      read_dense(piece, own.data(), faults);
    } else {
      read_dense(piece, image_.data() + piece.offset, faults);
    }
  }
  check_zones(faults);
  if (const std::string error = device_.finish(); !error.empty()) faults.push_back(error);
  return faults;
}

}  // namespace fovea::test
