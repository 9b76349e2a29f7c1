// SPDX-License-Identifier: Apache-2.0
// A C struct whose fields are set from Python objects by name.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tables.h"
#include "tensor.h"

namespace fovea::python {

class Record {
 public:
  explicit Record(const Struct& info);
  Record(const Record& other);
  Record(Record&& other) = default;

  const Struct& info() const { return *info_; }
  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  int find(nb::handle name) const;        // -1: no such field
  void set(int field, nb::handle value);  // None: as if it had not been given
  nb::object get(int field) const;
  nb::handle given(int field) const { return given_[field]; }  // null where it was not
  bool writable(int field) const { return !read_only_[field]; }
  const fovea_tensor* tensor(int field) const;  // null where the field holds none
  // Where the memory of a cache is; nothing where it has none that is known.
  std::optional<Place> cache_place() const { return cache_place_; }
  // The first tensor of a cache that may not be written to, and why; null where all may.
  const char* sealed() const { return sealed_; }
  const char* sealed_why() const { return sealed_why_; }
  // The structs that a field points to, as they were when it was set.
  const std::vector<std::shared_ptr<const Record>>& children(int field) const { return children_[field]; }
  // Throws where a cache among the fields is somewhere else than `place`; `why` is the argument that decides.
  void check_places(const Place& place, const char* why) const;
  void add_tensors(nb::list& all) const;  // the framework's tensors that it was given
  // Forgets tensors and caches, keeps options: what a plan's call begins with.
  Record options() const;
  Record copy_of_options() const;  // of a record that holds options alone, and that lives longer

  // Fields of a struct by keyword, from a dict; "k_scale" and "v_scale" of a cache as well.
  void set_all(const nb::dict& fields);
  void set_named(nb::handle name, nb::handle value);
  // As attributes of a Python object.
  nb::object get_named(nb::handle name) const;
  void set_attribute(nb::handle name, nb::handle value);

 private:
  void set_scalar(const Field& field, int at, nb::handle value);
  void set_tensors(const Field& field, int at, nb::handle value);
  void set_nested(const Field& field, int at, nb::handle value);
  void set_pointer(const Field& field, int at, nb::handle value);
  static std::shared_ptr<const Record> child_of(const Field& field, nb::handle value);
  void set_count(const Field& field, size_t count);
  bool is_cache() const;
  void set_cache_field(const char* name, nb::handle value);
  void derive_cache();
  void take_place(const Tensor& tensor, const char* name);
  char* at(const Field& field) const { return reinterpret_cast<char*>(data_.get()) + field.offset; }

  const Struct* info_;
  std::unique_ptr<std::max_align_t[]> data_;
  std::vector<nb::object> given_, keep_;
  std::vector<std::shared_ptr<void>> arrays_;  // of each field, where it points to one
  std::vector<std::vector<std::shared_ptr<const Record>>> children_;
  std::vector<bool> read_only_;
  struct Cache {
    nb::object k, v, k_scale, v_scale, k_rope;
  } cache_;
  std::optional<Place> cache_place_;
  const char* cache_first_ = "k";
  const char *sealed_ = nullptr, *sealed_why_ = nullptr;
};

const Struct& find_struct(std::string_view name);
int32_t enum_value(int enumeration, nb::handle value, const char* what);

}  // namespace fovea::python
