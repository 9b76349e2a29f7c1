// SPDX-License-Identifier: Apache-2.0
// Tensors that own guarded memory, of any strides, with everything outside the view poisoned.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/fovea.h"
#include "support/guarded.h"
#include "support/random.h"

namespace fovea::test {

// How the elements lie in memory. The default is packed and row-major.
struct Layout {
  std::vector<int> order = {};    // dims from the outermost to the innermost in memory; empty: 0, 1, 2, ..
  std::vector<int64_t> pad = {};  // elements by which memory is longer than each dim; empty: none
  int64_t lead = 0;               // elements of the type before the view: shifts the alignment of its base
  uint32_t reversed = 0;          // bit i: dim i runs backwards (negative stride)
  uint32_t broadcast = 0;         // bit i: stride 0
  Place place = Place::end;
};

class TensorBox {
 public:
  TensorBox() = default;  // an absent tensor
  TensorBox(int32_t dtype, std::vector<int64_t> shape, const Layout& layout = {});

  const fovea_tensor& view() const { return view_; }
  operator const fovea_tensor&() const { return view_; }
  explicit operator bool() const { return view_.dtype != 0; }
  int64_t size() const { return size_; }  // elements
  void* at(int64_t i) const;              // element i in row-major order of the shape
  double get(int64_t i) const;
  void set(int64_t i, double x) const;
  std::vector<double> values() const;
  void assign(const std::vector<double>& values) const;  // rounds each to the type
  void fill(const std::function<double(int64_t)>& f) const;
  Guarded& memory() { return memory_; }
  // True while every byte outside the view still has the poison it began with.
  bool outside_untouched() const;
  // The bytes of the elements, row-major: for comparing two results bit by bit.
  std::vector<std::byte> bits() const;

 private:
  Guarded memory_;
  fovea_tensor view_;
  int64_t size_ = 0;
};

// An index tensor (i32 or i64) of any rank; `layout` as above.
TensorBox indices(const std::vector<int64_t>& values, int32_t dtype = FOVEA_I32, std::vector<int64_t> shape = {},
                  const Layout& layout = {});
// A packed float tensor with given values.
TensorBox floats(const std::vector<double>& values, int32_t dtype = FOVEA_F32, std::vector<int64_t> shape = {});
// A layout drawn at random for `rank` dims whose last stride stays one element.
Layout random_layout(Rng& rng, int rank);

// Reads and views of any fovea_tensor, by strides.
int64_t elements(const fovea_tensor& t);
void* element(const fovea_tensor& t, int64_t i);  // row-major index
std::vector<double> values_of(const fovea_tensor& t);
std::string index_text(const fovea_tensor& t, int64_t i);  // "[2, 0, 17]"
fovea_tensor slice(fovea_tensor t, int dim, int64_t begin, int64_t end);

}  // namespace fovea::test
