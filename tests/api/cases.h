// SPDX-License-Identifier: Apache-2.0
// One small, valid call of every operation, with its memory: what the tests of the interface work on.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "api/c_table.h"
#include "fovea/fovea.hpp"
#include "support/kv_cache.h"
#include "support/random.h"
#include "support/tensors.h"

namespace fovea::test {

// Host memory that planning reads: the parameter struct, or one it points to. Zeros follow it, so that a struct_size of
// up to 64 KiB stays inside. Words in `pointers` (byte offsets) hold host pointers.
struct HostStruct {
  HostStruct(size_t bytes, std::vector<size_t> pointer_offsets);
  std::unique_ptr<std::byte[]> memory;
  size_t size;
  std::vector<size_t> pointers;
};

class OpCase {
 public:
  explicit OpCase(const c_operation& operation);  // equal cases have equal inputs
  const c_operation& operation() const { return *operation_; }
  int32_t op() const { return operation_->op; }
  void* params() const { return structs_.front().memory.get(); }
  template <class Params>
  Params& as() const {
    return *static_cast<Params*>(params());
  }
  uint32_t& struct_size() const { return *static_cast<uint32_t*>(params()); }
  std::list<HostStruct>& structs() { return structs_; }
  std::vector<std::byte> outputs() const;  // the bits of every output

 private:
  void fill(fovea_attention_params& p);
  void fill(fovea_merge_states_params& p);
  void fill(fovea_kv_append_params& p);
  void fill(fovea_kv_copy_params& p);
  void fill(fovea_rope_params& p);
  void fill(fovea_norm_params& p);
  void fill(fovea_glu_params& p);
  void fill(fovea_matmul_params& p);
  void fill(fovea_embed_params& p);
  void fill(fovea_sample_params& p);
  void fill(fovea_quantize_params& p);
  void fill(fovea_verify_params& p);
  void fill_target(fovea_sample_params& p, int64_t requests, int64_t rows);

  const fovea_tensor& normal(std::vector<int64_t> shape, int32_t dtype = FOVEA_F32);
  const fovea_tensor& index(const std::vector<int64_t>& values, std::vector<int64_t> shape = {});
  const fovea_tensor& output(std::vector<int64_t> shape, int32_t dtype = FOVEA_F32);
  // An array of `count` copies of `value` that planning reads.
  template <class T>
  T* host(const T& value, size_t count, std::vector<size_t> pointers = {});
  const KvCache& cache(const KvSpec& spec);

  const c_operation* operation_;
  Rng rng_{20240131};
  std::list<HostStruct> structs_;
  std::list<TensorBox> inputs_, outputs_;
  std::list<KvCache> caches_;
  bool cache_is_output_ = false;
};

}  // namespace fovea::test
