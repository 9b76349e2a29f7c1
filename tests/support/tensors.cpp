// SPDX-License-Identifier: Apache-2.0
#include "support/tensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "oracle/numbers.h"

namespace fovea::test {

int64_t elements(const fovea_tensor& t) {
  int64_t n = 1;
  for (int i = 0; i < t.rank; ++i) n *= t.shape[i];
  return n;
}

void* element(const fovea_tensor& t, int64_t i) {
  int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    offset += i % t.shape[d] * t.stride[d];
    i /= t.shape[d];
  }
  return static_cast<std::byte*>(t.data) + offset * oracle::bytes_of(t.dtype);
}

std::vector<double> values_of(const fovea_tensor& t) {
  std::vector<double> x(static_cast<size_t>(elements(t)));
  for (size_t i = 0; i < x.size(); ++i) x[i] = oracle::decode(t.dtype, element(t, static_cast<int64_t>(i)));
  return x;
}

std::string index_text(const fovea_tensor& t, int64_t i) {
  std::string text = "]";
  for (int d = t.rank - 1; d >= 0; --d) {
    text = (d ? ", " : "[") + std::to_string(i % t.shape[d]) + text;
    i /= t.shape[d];
  }
  return text;
}

fovea_tensor slice(fovea_tensor t, int dim, int64_t begin, int64_t end) {
  t.data = static_cast<std::byte*>(t.data) + begin * t.stride[dim] * oracle::bytes_of(t.dtype);
  t.shape[dim] = end - begin;
  return t;
}

TensorBox::TensorBox(int32_t dtype, std::vector<int64_t> shape, const Layout& layout) {
  const int rank = static_cast<int>(shape.size());
  view_.dtype = dtype;
  view_.rank = rank;
  std::vector<int> order = layout.order;
  if (order.empty()) {
    order.resize(shape.size());
    std::iota(order.begin(), order.end(), 0);
  }
  int64_t extent = 1;
  int64_t first = layout.lead;
  for (int i = rank - 1; i >= 0; --i) {
    const int d = order[static_cast<size_t>(i)];
    const int64_t n = shape[static_cast<size_t>(d)];
    view_.shape[d] = n;
    if (layout.broadcast >> d & 1) continue;
    view_.stride[d] = extent;
    if (layout.reversed >> d & 1) {
      view_.stride[d] = -extent;
      first += std::max<int64_t>(n - 1, 0) * extent;
    }
    extent *= n + (layout.pad.empty() ? 0 : layout.pad[static_cast<size_t>(d)]);
  }
  const int64_t bytes = oracle::bytes_of(dtype);
  memory_ = Guarded(static_cast<size_t>((layout.lead + extent) * bytes), layout.place);
  view_.data = memory_.data() + (extent ? first : 0) * bytes;
  size_ = elements(view_);
}

void* TensorBox::at(int64_t i) const {
  return element(view_, i);
}
double TensorBox::get(int64_t i) const {
  return oracle::decode(view_.dtype, at(i));
}
void TensorBox::set(int64_t i, double x) const {
  oracle::encode(view_.dtype, at(i), x);
}
std::vector<double> TensorBox::values() const {
  return values_of(view_);
}

void TensorBox::assign(const std::vector<double>& values) const {
  for (int64_t i = 0; i < size_; ++i) set(i, values[static_cast<size_t>(i)]);
}

void TensorBox::fill(const std::function<double(int64_t)>& f) const {
  for (int64_t i = 0; i < size_; ++i) set(i, f(i));
}

bool TensorBox::outside_untouched() const {
  const auto bytes = static_cast<size_t>(oracle::bytes_of(view_.dtype));
  std::vector<bool> inside(memory_.size(), false);
  for (int64_t i = 0; i < size_; ++i) {
    const auto offset = static_cast<size_t>(static_cast<std::byte*>(at(i)) - memory_.data());
    std::fill_n(inside.begin() + static_cast<int64_t>(offset), bytes, true);
  }
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (!inside[i] && memory_.data()[i] != std::byte{kPoison}) return false;
  }
  return true;
}

std::vector<std::byte> TensorBox::bits() const {
  const auto bytes = static_cast<size_t>(oracle::bytes_of(view_.dtype));
  std::vector<std::byte> all(static_cast<size_t>(size_) * bytes);
  for (int64_t i = 0; i < size_; ++i) std::memcpy(all.data() + static_cast<size_t>(i) * bytes, at(i), bytes);
  return all;
}

TensorBox indices(const std::vector<int64_t>& values, int32_t dtype, std::vector<int64_t> shape, const Layout& layout) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  TensorBox box(dtype, std::move(shape), layout);
  for (int64_t i = 0; i < box.size(); ++i) {  // not through double: 64-bit garbage stays exact
    const int64_t x = values[static_cast<size_t>(i)];
    const auto narrow = static_cast<int32_t>(x);
    std::memcpy(box.at(i), dtype == FOVEA_I64 ? static_cast<const void*>(&x) : &narrow, dtype == FOVEA_I64 ? 8 : 4);
  }
  return box;
}

TensorBox floats(const std::vector<double>& values, int32_t dtype, std::vector<int64_t> shape) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  TensorBox box(dtype, std::move(shape));
  box.assign(values);
  return box;
}

Layout random_layout(Rng& rng, int rank) {
  Layout layout;
  layout.place = rng.chance(0.5) ? Place::end : Place::begin;
  if (rng.chance(0.3)) return layout;
  layout.lead = rng.pick({0, 0, 1, 2, 3, 5});
  layout.order.resize(static_cast<size_t>(rank));
  std::iota(layout.order.begin(), layout.order.end(), 0);
  for (int i = 0; i + 2 < rank; ++i) {  // the last dim stays innermost
    std::swap(layout.order[static_cast<size_t>(i)], layout.order[static_cast<size_t>(rng.integer(i, rank - 2))]);
  }
  for (int i = 0; i < rank; ++i) layout.pad.push_back(rng.pick({0, 0, 1, 3, 8}));
  for (int i = 0; i + 1 < rank; ++i) {
    if (rng.chance(0.15)) layout.reversed |= 1u << i;
  }
  return layout;
}

}  // namespace fovea::test
