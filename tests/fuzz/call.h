// SPDX-License-Identifier: Apache-2.0
// One call of an operation whose parameters come from an input: first a call that is mostly right, then some words of
// its structs replaced, then memory of exactly the sizes that the structs say. Nothing else is behind their pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.hpp"
#include "fuzz/input.h"

namespace fovea::fuzz {

__extension__ typedef __int128 Wide;  // holds every product of two sizes

// `ignored`: a tensor that the operation does not look at.
enum class Access { read, write, ignored };

// Memory between redzones of the sanitizer, with a copy of what it held and a mark on each byte that may change.
struct Block {
  std::unique_ptr<std::byte[]> memory;
  size_t bytes = 0;
  std::vector<std::byte> before;
  std::vector<bool> writable;  // empty: none
};

class Call {
 public:
  Call(int32_t op, Input& in) : op_(op), in_(in) {}

  // Structs that the call points to, followed by 64 KiB of zeros for a struct_size that says so.
  template <class T>
  T* structs(size_t count) {
    T* first = reinterpret_cast<T*>(raw_struct(count * sizeof(T)));
    for (size_t i = 0; i < count; ++i) new (first + i) T();
    return first;
  }
  // Host pointers are put back after the words were replaced. `bytes` of memory lie behind it; 0: it is a struct.
  void pin(void* field, const void* value);
  // Every tensor of every struct has to be named, given or not: memory follows from what it says at the end.
  void name(fovea_tensor& t, Access access = Access::read) { tensors_.push_back({&t, access, {}, {}}); }
  // A packed or strided tensor, named already; `values` of an index tensor repeat.
  void give(fovea_tensor& t, int32_t dtype, std::initializer_list<int64_t> shape, std::vector<int64_t> values = {});
  void alias(fovea_tensor& t, const fovea_tensor& other);  // the same memory where they are the same view in the end
  void name(fovea_kv& kv, Access access) { caches_.push_back({&kv, access}); }

  // Replaces words, takes memory, asks, plans and runs, and demands what must hold.
  void run(const Context& context, const std::function<double()>& work);

  Input& in() { return in_; }

 private:
  struct Named {
    fovea_tensor* tensor;
    Access access;
    std::vector<int64_t> values;
    const fovea_tensor* alias;
  };
  struct NamedCache {
    fovea_kv* kv;
    Access access;
  };
  struct Pin {
    void* field;
    const void* value;
  };
  struct Region {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes;
  };

  std::byte* raw_struct(size_t bytes);
  void spoil();
  void take_memory();
  void take(Named& named);
  void take(const NamedCache& cache);
  void take_records(const NamedCache& cache);
  void take_stream(fovea_kv_stream& s, const fovea_kv& kv, Wide vector_bytes, Access access, bool given);
  Block* block(Wide bytes);
  void fill(Block& b, Named& named, const std::byte* first);
  void check_memory(bool may_write) const;

  int32_t op_;
  Input& in_;
  std::list<Region> regions_;  // the first is the parameter struct
  std::vector<Named> tensors_;
  std::vector<NamedCache> caches_;
  std::vector<Pin> pins_;
  std::list<Block> blocks_;
  std::string lacking_;  // what has elements and no memory, by its place in the order of naming
};

}  // namespace fovea::fuzz
