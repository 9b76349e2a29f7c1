// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace fovea::python {

namespace {

std::string_view text_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<size_t>(size)};
}

std::string shown(nb::handle value) {
  return nb::repr(value).c_str();
}

template <class T>
void store(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): pointers are stored as they are
}

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store_integer(char* at, nb::handle value, const char* what) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    raise(FOVEA_INVALID_TYPE, std::string(what) + " is " + shown(value) + ": must be an integer");
  }
  T number = 0;
  if (!nb::try_cast<T>(index, number)) {
    raise(FOVEA_INVALID_VALUE, std::string(what) + " is " + shown(value) + ": must be in [" +
                                   std::to_string(std::numeric_limits<T>::min()) + ", " +
                                   std::to_string(std::numeric_limits<T>::max()) + "]");
  }
  store(at, number);
}

double number_of(nb::handle value, const char* what) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise(FOVEA_INVALID_TYPE, std::string(what) + " is " + shown(value) + ": must be a number");
  }
  return number;
}

bool is_list(nb::handle value) {
  return nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
}

// The codec that stores the element type. Bytes of codes are those of several, in records.
int32_t codec_of(int32_t dtype) {
  constexpr struct {
    int32_t codec, dtype;
  } kCodecs[] = {
#define FOVEA_CODEC(name, NAME, value, dtype) {value, FOVEA_##dtype},
#include "fovea/codecs.def"
#undef FOVEA_CODEC
  };
  for (const auto& row : kCodecs) {
    if (row.dtype == dtype && dtype != FOVEA_U8) return row.codec;
  }
  return FOVEA_CODEC_NONE;
}

// A stream over [pages, tokens, heads, ..] or the first of these dims, in bytes.
fovea_kv_stream stream_of(const fovea_tensor& t, int from) {
  const int64_t bytes = fovea_dtype_bytes(t.dtype, 1);
  int64_t strides[3] = {0, 0, 0};
  for (int i = 0; i < t.rank && from + i < 3; ++i) strides[from + i] = t.stride[i] * bytes;
  return {t.data, strides[0], strides[1], strides[2]};
}

}  // namespace

const Struct& find_struct(std::string_view name) {
  for (size_t i = 0; i < kStructCount; ++i)
    if (name == kStructs[i].name) return kStructs[i];
  raise(FOVEA_INTERNAL, "no struct " + std::string(name));
}

int32_t enum_value(int enumeration, nb::handle value, const char* what) {
  if (!nb::isinstance<nb::str>(value)) {
    int32_t number = 0;
    store_integer<int32_t>(reinterpret_cast<char*>(&number), value, what);
    return number;
  }
  const Enum& rows = kEnums[enumeration];
  std::string all;
  for (size_t i = 0; i < rows.count; ++i) {
    if (text_of(value) == rows.values[i].name) return rows.values[i].value;
    all += (i ? ", " : "") + std::string(rows.values[i].name);
  }
  raise(FOVEA_INVALID_VALUE, std::string(what) + " is " + shown(value) + ": must be one of " + all);
}

Record::Record(const Struct& info)
    : info_(&info),
      data_(new std::max_align_t[info.size / sizeof(std::max_align_t) + 1]),
      given_(info.count),
      arrays_(info.count),
      children_(info.count),
      read_only_(info.count) {
  info.init(data_.get());
}

Record::Record(const Record& other)
    : info_(other.info_),
      data_(new std::max_align_t[info_->size / sizeof(std::max_align_t) + 1]),
      given_(other.given_),
      keep_(other.keep_),
      arrays_(other.arrays_),
      children_(other.children_),
      read_only_(other.read_only_),
      cache_(other.cache_),
      cache_place_(other.cache_place_),
      cache_first_(other.cache_first_),
      sealed_(other.sealed_),
      sealed_why_(other.sealed_why_) {
  std::memcpy(data_.get(), other.data_.get(), info_->size);
}

int Record::find(nb::handle name) const {
  const std::string_view text = text_of(name);
  for (size_t i = 0; i < info_->count; ++i)
    if (text == info_->fields[i].name) return static_cast<int>(i);
  return -1;
}

void Record::set_scalar(const Field& field, int at_element, nb::handle value) {
  const size_t width = field.kind == Kind::i64 || field.kind == Kind::u64 || field.kind == Kind::f64 ? 8 : 4;
  char* to = at(field) + width * at_element;
  switch (field.kind) {
    case Kind::i32:
      return field.enumeration < 0 ? store_integer<int32_t>(to, value, field.name)
                                   : store(to, enum_value(field.enumeration, value, field.name));
    case Kind::u32:
      return store_integer<uint32_t>(to, value, field.name);
    case Kind::i64:
      return store_integer<int64_t>(to, value, field.name);
    case Kind::u64:
      return store_integer<uint64_t>(to, value, field.name);
    case Kind::f32:
      return store(to, static_cast<float>(number_of(value, field.name)));
    default:
      return store(to, number_of(value, field.name));
  }
}

void Record::set_count(const Field& field, size_t count) {
  if (field.count_field >= 0) store(at(info_->fields[field.count_field]), static_cast<int32_t>(count));
}

void Record::set_tensors(const Field& field, int i, nb::handle value) {
  if (!is_list(value)) raise(FOVEA_INVALID_TYPE, std::string(field.name) + ": must be a list of tensors");
  const size_t n = nb::len(value);
  if (field.count_field >= 0) {  // one count for several lists: they must agree
    for (size_t other = 0; other < info_->count; ++other) {
      const Field& o = info_->fields[other];
      if (static_cast<int>(other) != i && o.count_field == field.count_field && given_[other].is_valid() &&
          nb::len(given_[other]) != n) {
        raise(FOVEA_INVALID_VALUE, std::string(field.name) + " has " + std::to_string(n) +
                                       " tensors: must be as many as " + o.name + " (" +
                                       std::to_string(nb::len(given_[other])) + ")");
      }
    }
  }
  auto list = std::make_shared<std::vector<fovea_tensor>>();
  for (size_t k = 0; k < n; ++k) {
    Tensor t = import_tensor(value[k], (std::string(field.name) + "[" + std::to_string(k) + "]").c_str());
    list->push_back(t.view);
    if (t.keep.is_valid()) keep_.push_back(t.keep);
  }
  store(at(field), static_cast<const fovea_tensor*>(list->data()));
  arrays_[i] = std::move(list);
  set_count(field, n);
}

// A copy: what a call uses stays as it is, and alive, when the object changes meanwhile.
std::shared_ptr<const Record> Record::child_of(const Field& field, nb::handle value) {
  const Struct& info = kStructs[field.structure];
  Record* given = nullptr;
  if (nb::try_cast<Record*>(value, given) && given != nullptr && &given->info() == &info) {
    return std::make_shared<Record>(*given);
  }
  if (!nb::isinstance<nb::dict>(value)) {
    raise(FOVEA_INVALID_TYPE, std::string(field.name) + " is of type " +
                                  nb::str(nb::handle(Py_TYPE(value.ptr()))).c_str() + ": must be what C calls fovea_" +
                                  info.name + ", or a dict of its fields");
  }
  auto made = std::make_shared<Record>(info);
  made->set_all(nb::borrow<nb::dict>(value));
  return made;
}

void Record::set_nested(const Field& field, int i, nb::handle value) {
  children_[i] = {child_of(field, value)};
  std::memcpy(at(field), children_[i][0]->data(), kStructs[field.structure].size);
}

void Record::set_pointer(const Field& field, int i, nb::handle value) {
  if (field.count_field < 0 || !is_list(value)) {
    children_[i] = {child_of(field, value)};
    return store(at(field), children_[i][0]->data());
  }
  const size_t size = kStructs[field.structure].size;
  children_[i].clear();
  for (nb::handle item : nb::iter(value)) children_[i].push_back(child_of(field, item));
  auto all = std::make_shared<std::vector<std::max_align_t>>(children_[i].size() * size / sizeof(std::max_align_t) + 1);
  char* to = reinterpret_cast<char*>(all->data());
  for (const auto& child : children_[i]) {
    std::memcpy(to, child->data(), size);
    to += size;
  }
  store(at(field), static_cast<void*>(all->data()));
  arrays_[i] = std::move(all);
  set_count(field, children_[i].size());
}

void Record::set(int i, nb::handle value) {
  const Field& field = info_->fields[i];
  if (value.is_none()) return;
  switch (field.kind) {
    case Kind::text:
      if (!nb::isinstance<nb::str>(value)) raise(FOVEA_INVALID_TYPE, std::string(field.name) + ": must be a str");
      store(at(field), text_of(value).data());
      break;
    case Kind::address:
      store_integer<uint64_t>(at(field), value, field.name);
      break;
    case Kind::tensor: {
      Tensor t = import_tensor(value, field.name);
      store(at(field), t.view);
      read_only_[i] = t.read_only;
      if (t.keep.is_valid()) keep_.push_back(t.keep);
      break;
    }
    case Kind::tensors:
      set_tensors(field, i, value);
      break;
    case Kind::floats: {
      auto list = std::make_shared<std::vector<float>>();
      for (nb::handle x : nb::iter(value)) list->push_back(static_cast<float>(number_of(x, field.name)));
      store(at(field), static_cast<const float*>(list->data()));
      arrays_[i] = std::move(list);
      break;
    }
    case Kind::nested:
      set_nested(field, i, value);
      break;
    case Kind::pointer:
      set_pointer(field, i, value);
      break;
    case Kind::chars:
      raise(FOVEA_INVALID_VALUE, std::string(field.name) + " cannot be set");
    default:
      if (field.count == 1) {
        set_scalar(field, 0, value);
        break;
      }
      if (!is_list(value) || nb::len(value) > static_cast<size_t>(field.count)) {
        raise(FOVEA_INVALID_VALUE, std::string(field.name) + " is " + shown(value) + ": must be a list of at most " +
                                       std::to_string(field.count) + " numbers");
      }
      for (size_t k = 0; k < nb::len(value); ++k) set_scalar(field, static_cast<int>(k), value[k]);
  }
  given_[i] = nb::borrow(value);
}

nb::object Record::get(int i) const {
  const Field& field = info_->fields[i];
  switch (field.kind) {
    case Kind::i32:
      if (field.count > 1) {
        nb::list all;
        for (int k = 0; k < field.count; ++k) all.append(load<int32_t>(at(field) + 4 * k));
        return all;
      }
      return nb::cast(load<int32_t>(at(field)));
    case Kind::u32:
      return nb::cast(load<uint32_t>(at(field)));
    case Kind::i64:
      return nb::cast(load<int64_t>(at(field)));
    case Kind::u64:
    case Kind::address:
      return nb::cast(load<uint64_t>(at(field)));
    case Kind::f32: {  // 1e-06, not the nearest double's 17 digits
      char text[32];
      *std::to_chars(text, text + sizeof text - 1, load<float>(at(field))).ptr = 0;
      return nb::cast(std::strtod(text, nullptr));
    }
    case Kind::f64:
      return nb::cast(load<double>(at(field)));
    case Kind::chars:
      return nb::cast(static_cast<const char*>(at(field)));
    default:
      return given_[i].is_valid() ? given_[i] : nb::none();
  }
}

nb::object Record::get_named(nb::handle name) const {
  const std::string_view text = text_of(name);
  if (is_cache()) {
    const std::pair<const char*, const nb::object&> tensors[] = {{"k", cache_.k},
                                                                 {"v", cache_.v},
                                                                 {"k_scale", cache_.k_scale},
                                                                 {"v_scale", cache_.v_scale},
                                                                 {"k_rope", cache_.k_rope}};
    for (const auto& [key, tensor] : tensors)
      if (text == key && tensor.is_valid()) return tensor;
    if (text == "k_scale" || text == "v_scale") return nb::none();
  }
  const int i = find(name);
  if (i >= 0) return get(i);
  PyErr_SetString(PyExc_AttributeError,
                  (std::string("fovea_") + info_->name + " has no field '" + std::string(text) + "'").c_str());
  throw nb::python_error();
}

void Record::set_attribute(nb::handle name, nb::handle value) {
  if (value.is_none())
    raise(FOVEA_INVALID_VALUE, std::string(text_of(name)) + ": a field that was set cannot become None");
  const Cache before = cache_;
  try {
    set_named(name, value);
    if (is_cache()) derive_cache();
  } catch (...) {
    cache_ = before;
    if (is_cache()) derive_cache();
    throw;
  }
}

const fovea_tensor* Record::tensor(int i) const {
  if (info_->fields[i].kind != Kind::tensor || !given_[i].is_valid()) return nullptr;
  return reinterpret_cast<const fovea_tensor*>(at(info_->fields[i]));
}

bool Record::is_cache() const {
  return std::string_view(info_->name) == "kv";
}

void Record::set_named(nb::handle name, nb::handle value) {
  const int i = find(name);
  const std::string_view text = text_of(name);
  if (is_cache() && (text == "k_scale" || text == "v_scale" || text == "k" || text == "v" || text == "k_rope")) {
    Record* side = nullptr;
    if (i < 0 || !nb::try_cast<Record*>(value, side)) return set_cache_field(text.data(), value);
  }
  if (i < 0) {
    PyErr_SetString(PyExc_TypeError,
                    (std::string("fovea_") + info_->name + " has no field '" + std::string(text) + "'").c_str());
    throw nb::python_error();
  }
  set(i, value);
}

void Record::set_all(const nb::dict& fields) {
  for (auto [name, value] : fields)
    if (!value.is_none()) set_named(name, value);
  if (is_cache()) derive_cache();
}

void Record::set_cache_field(const char* name, nb::handle value) {
  const std::string_view text = name;
  nb::object& to = text == "k"         ? cache_.k
                   : text == "v"       ? cache_.v
                   : text == "k_scale" ? cache_.k_scale
                   : text == "v_scale" ? cache_.v_scale
                                       : cache_.k_rope;
  to = nb::borrow(value);
}

void Record::take_place(const Tensor& t, const char* name_of_tensor) {
  const Place place = t.place();
  if (!cache_place_) {
    cache_place_ = place;
    cache_first_ = name_of_tensor;
  } else if (!(*cache_place_ == place)) {
    raise(FOVEA_INVALID_VALUE, std::string(name_of_tensor) + " is on " + name(place) + ": must be on " +
                                   name(*cache_place_) + " (" + cache_first_ + ")");
  }
  if (t.keep.is_valid()) keep_.push_back(t.keep);
}

// What a cache's tensors say of its fields; those that were given by name stay.
void Record::derive_cache() {
  auto& kv = *static_cast<fovea_kv*>(data());
  const auto unless_given = [&](const char* field, auto& member, int64_t value) {
    if (!given_[find(nb::str(field))].is_valid())
      member = static_cast<std::remove_reference_t<decltype(member)>>(value);
  };
  cache_place_.reset();
  sealed_ = nullptr;
  const auto rank_error = [](const char* what, const fovea_tensor& t, const char* allowed) {
    raise(FOVEA_INVALID_VALUE, std::string(what) + ".rank is " + std::to_string(t.rank) + ": must be " + allowed);
  };
  // [tokens, heads, dims] of ragged keys is one page of them all.
  const auto take = [&](const nb::object& object, const char* what) {
    Tensor t = import_tensor(object, what);
    if (t.view.rank != 3 && t.view.rank != 4)
      rank_error(what, t.view, "4, [pages, tokens, heads, dims], or 3, [tokens, heads, dims]");
    const int last = t.view.rank - 1;
    if (t.view.stride[last] != 1 && t.view.shape[last] > 1) {
      raise(FOVEA_INVALID_VALUE, std::string(what) + ".stride[" + std::to_string(last) + "] is " +
                                     std::to_string(t.view.stride[last]) + ": must be 1");
    }
    take_place(t, what);
    const bool immutable = !t.base.is_none() && tensor_type(t.base).immutable;
    if (sealed_ == nullptr && (t.read_only || immutable)) {
      sealed_ = what;
      sealed_why_ = immutable ? "arrays of this type are immutable" : "it is read-only";
    }
    return t.view;
  };
  const auto scales = [&](fovea_kv_side& side, const nb::object& object, const char* what, int32_t dims) {
    if (!object.is_valid()) return;
    const Tensor t = import_tensor(object, what);
    const fovea_tensor& s = t.view;
    take_place(t, what);
    side.scale_dtype = s.dtype;
    if (s.rank == 0 || (s.rank == 1 && s.shape[0] == 1)) {
      side.scale_kind = FOVEA_SCALE_TENSOR;
      side.scale.base = s.data;
      return;
    }
    if (s.rank == 2 || s.rank > 4) {
      rank_error(what, s,
                 "0 (of the tensor), 1 (of heads), 3 [pages, tokens, heads] or 4 [pages, tokens, heads, groups]");
    }
    side.scale_kind = s.rank == 1 ? FOVEA_SCALE_HEAD : s.rank == 3 ? FOVEA_SCALE_TOKEN_HEAD : FOVEA_SCALE_GROUP;
    side.scale = stream_of(s, s.rank == 1 ? 2 : 0);
    if (s.rank == 4) {
      if (s.shape[3] < 1 || dims % s.shape[3] != 0 || (s.stride[3] != 1 && s.shape[3] > 1)) {
        raise(FOVEA_INVALID_VALUE, std::string(what) + ".shape[3] is " + std::to_string(s.shape[3]) + ": must divide " +
                                       std::to_string(dims) + ", with a stride of 1");
      }
      side.scale_group = static_cast<int32_t>(dims / s.shape[3]);
    }
  };
  // A scale of one head is read through the stream of heads as well: its extent says which kind was meant.
  const auto extent = [&](const fovea_tensor& t, const char* what, const fovea_tensor& as) {
    for (int i = 0; i < t.rank - 1; ++i) {
      if (t.rank != as.rank || t.shape[i] != as.shape[i]) {
        raise(FOVEA_INVALID_VALUE, std::string(what) + ": pages, tokens and heads must be those of k");
      }
    }
  };
  if (!cache_.k.is_valid()) {
    if (cache_.v.is_valid() || cache_.k_rope.is_valid() || cache_.k_scale.is_valid() || cache_.v_scale.is_valid()) {
      raise(FOVEA_INVALID_VALUE, "k is missing: the other tensors of the cache go with it");
    }
    return;
  }
  const fovea_tensor k = take(cache_.k, "k");
  const int lead = k.rank - 3;  // dims before tokens
  kv.k.codec = codec_of(k.dtype);
  kv.k.data = stream_of(k, 1 - lead);
  int64_t d_k = k.shape[lead + 2];
  if (cache_.k_rope.is_valid()) {
    const fovea_tensor rope = take(cache_.k_rope, "k_rope");
    extent(rope, "k_rope", k);
    kv.k_rope = stream_of(rope, 1 - lead);
    kv.rope_dtype = rope.dtype;
    kv.d_rope = static_cast<int32_t>(rope.shape[rope.rank - 1]);
    d_k += kv.d_rope;
  }
  unless_given("pages", kv.pages, lead ? k.shape[0] : 1);
  unless_given("page_size", kv.page_size, k.shape[lead]);
  unless_given("heads", kv.heads, k.shape[lead + 1]);
  unless_given("d_k", kv.d_k, d_k);
  scales(kv.k, cache_.k_scale, "k_scale", static_cast<int32_t>(k.shape[lead + 2]));
  if (cache_.v.is_valid()) {
    const fovea_tensor v = take(cache_.v, "v");
    extent(v, "v", k);
    kv.v.codec = codec_of(v.dtype);
    kv.v.data = stream_of(v, 1 - lead);
    unless_given("d_v", kv.d_v, v.shape[lead + 2]);
    scales(kv.v, cache_.v_scale, "v_scale", static_cast<int32_t>(v.shape[lead + 2]));
  } else if (cache_.v_scale.is_valid()) {
    raise(FOVEA_INVALID_VALUE, "v_scale is given without v");
  }
}

void Record::check_places(const Place& place, const char* why) const {
  for (size_t i = 0; i < info_->count; ++i) {
    for (const auto& child : children_[i]) {
      if (!child->cache_place_ || *child->cache_place_ == place) continue;
      raise(FOVEA_INVALID_VALUE, std::string(info_->fields[i].name) + "." + child->cache_first_ + " is on " +
                                     name(*child->cache_place_) + ": must be on " + name(place) + " (" + why + ")");
    }
  }
}

void Record::add_tensors(nb::list& all) const {
  const auto add = [&](nb::handle object) {
    Tensor* wrapped = nullptr;
    const nb::object base = nb::try_cast<Tensor*>(object, wrapped) && wrapped ? wrapped->base : nb::borrow(object);
    if (!base.is_none()) all.append(base);
  };
  for (const nb::object& tensor : {cache_.k, cache_.v, cache_.k_scale, cache_.v_scale, cache_.k_rope})
    if (tensor.is_valid()) add(tensor);
  for (size_t i = 0; i < info_->count; ++i) {
    for (const auto& child : children_[i]) child->add_tensors(all);
    if (!given_[i].is_valid()) continue;
    if (info_->fields[i].kind == Kind::tensor) add(given_[i]);
    if (info_->fields[i].kind != Kind::tensors) continue;
    for (nb::handle item : nb::iter(given_[i])) add(item);
  }
}

Record Record::options() const {
  Record out(*info_);
  const Record defaults(*info_);
  std::memcpy(out.data_.get(), data_.get(), info_->size);
  for (size_t i = 0; i < info_->count; ++i) {
    const Field& field = info_->fields[i];
    const bool config = field.structure >= 0 && kStructs[field.structure].name == std::string_view("rope_config");
    const bool memory = field.kind == Kind::tensor || field.kind == Kind::tensors || field.kind == Kind::nested ||
                        (field.kind == Kind::pointer && !config);
    if (!memory) {
      out.given_[i] = given_[i];
      out.arrays_[i] = arrays_[i];
      out.children_[i] = children_[i];
    } else if (given_[i].is_valid()) {
      const size_t bytes = field.kind == Kind::tensor   ? sizeof(fovea_tensor)
                           : field.kind == Kind::nested ? kStructs[field.structure].size
                                                        : sizeof(void*);
      std::memcpy(out.at(field), defaults.at(field), bytes);
    }
  }
  return out;
}

Record Record::copy_of_options() const {
  Record out(*info_);
  std::memcpy(out.data_.get(), data_.get(), info_->size);
  return out;
}

}  // namespace fovea::python
