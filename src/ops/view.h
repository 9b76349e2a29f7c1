// SPDX-License-Identifier: Apache-2.0
// From the user's tensor, already checked, to the kernels' view.
#pragma once

#include "base/tensor.h"
#include "shared/view.h"

namespace fovea {

// Nothing but the type of an absent tensor is looked at.
template <int dims>
inline ViewOf<dims> view_of(const fovea_tensor& t) {
  if (!present(t)) return {};
  ViewOf<dims> v{.data = t.data,
                 .dtype = dtype(t),
                 .rank = t.rank,
                 .block = dtype_block(dtype(t)),
                 .block_bytes = dtype_block_bytes(dtype(t))};
  for (int i = 0; i < t.rank; ++i) {
    v.shape[i] = t.shape[i];
    v.stride[i] = t.stride[i];
  }
  return v;
}
inline View view(const fovea_tensor& t) {
  return view_of<5>(t);
}
inline IndexView index_view(const fovea_tensor& t) {
  return view_of<2>(t);
}

// The same with leading dimensions of one, so that kernels know one rank. Absent stays absent.
template <int dims = 5>
inline ViewOf<dims> view_of_rank(const fovea_tensor& t, int rank) {
  ViewOf<dims> v = view_of<dims>(t);
  if (!v.given()) return v;
  v.rank = rank;
  const int lead = rank - t.rank;
  for (int i = 0; i < rank; ++i) {
    v.shape[i] = i < lead ? 1 : t.shape[i - lead];
    v.stride[i] = i < lead ? 0 : t.stride[i - lead];
  }
  return v;
}

}  // namespace fovea
