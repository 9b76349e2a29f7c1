// SPDX-License-Identifier: Apache-2.0
// fovea._core: the C interface in Python's words. Everything about frameworks is in Python beside it.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "operation.h"
#include "page_pool.h"

namespace fovea::python {

namespace {

nb::dict enums() {
  nb::dict all;
  for (size_t i = 0; i < kEnumCount; ++i) {
    nb::dict values;
    for (size_t k = 0; k < kEnums[i].count; ++k) values[kEnums[i].values[k].name] = kEnums[i].values[k].value;
    all[kEnums[i].name] = values;
  }
  return all;
}

constexpr const char* kKindNames[] = {"int", "int", "int",    "int",    "float",   "float",  "str",
                                      "str", "int", "floats", "tensor", "tensors", "struct", "struct"};

// name -> (doc, fields); a field is (name, kind, type, default, doc), type being its enum's or struct's name or None.
nb::dict structs() {
  nb::dict all;
  for (size_t i = 0; i < kStructCount; ++i) {
    const Struct& s = kStructs[i];
    const Record defaults(s);
    nb::list fields;
    for (size_t k = 0; k < s.count; ++k) {
      const Field& f = s.fields[k];
      bool counts = false;
      for (size_t other = 0; other < s.count; ++other) counts |= s.fields[other].count_field == static_cast<int>(k);
      if (counts) continue;
      nb::object type = nb::none();
      if (f.enumeration >= 0) type = nb::str(kEnums[f.enumeration].name);
      if (f.structure >= 0) type = nb::str(kStructs[f.structure].name);
      fields.append(
          nb::make_tuple(f.name, kKindNames[static_cast<int>(f.kind)], type, defaults.get(static_cast<int>(k)), f.doc));
    }
    all[s.name] = nb::make_tuple(s.doc, fields);
  }
  return all;
}

nb::dict operations() {
  nb::dict all;
#define FOVEA_OP(name, Name, NAME, value, text) all[#name] = text;
#include "fovea/operations.def"
#undef FOVEA_OP
  return all;
}

nb::tuple shape_of(const Tensor& t) {
  nb::list shape;
  for (int i = 0; i < t.view.rank; ++i) shape.append(t.view.shape[i]);
  return nb::tuple(shape);
}

}  // namespace
}  // namespace fovea::python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace fovea::python;
  nb::set_leak_warnings(false);  // default contexts live as long as the process

  m.def("version", [] { return fovea_version(); });
  m.def("dtype_bytes", [](nb::handle dtype, int64_t elements) { return fovea_dtype_bytes(dtype_of(dtype), elements); });
  m.def("enums", &enums);
  m.def("structs", &structs);
  m.def("operations", &operations);
  m.def("set_default_context", &Context::set_default);
  m.def("default_context", [](const std::string& device) { return Context::get_default(place_of(device)); });

  nb::class_<Tensor>(m, "Tensor")
      .def(
          "__init__",
          [](Tensor* self, const nb::object& base, const nb::object& dtype, const nb::object& shape,
             const std::string& device) {
            if (base.is_none() && (shape.is_none() || dtype.is_none()))
              raise(FOVEA_INVALID_TYPE, "Tensor needs base, or shape and dtype");
            if (!base.is_none() && !shape.is_none()) raise(FOVEA_INVALID_TYPE, "shape: goes with no base");
            new (self) Tensor(base.is_none()    ? without_memory(shape, dtype_of(dtype), place_of(device))
                              : dtype.is_none() ? import_tensor(base, "base")
                                                : reinterpret(base, dtype_of(dtype)));
          },
          nb::arg("base") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(),
          nb::arg("device") = "cpu")
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro("dtype", [](const Tensor& t) { return fovea_dtype_name(t.view.dtype); })
      .def_prop_ro("device", [](const Tensor& t) { return name(t.place()); })
      .def_ro("base", &Tensor::base)
      .def("__repr__", [](const Tensor& t) {
        return "fovea.Tensor(" + std::string(nb::str(shape_of(t)).c_str()) + ", " + fovea_dtype_name(t.view.dtype) +
               ", " + name(t.place()) + ")";
      });

  nb::class_<Record>(m, "Record")
      .def("__init__",
           [](Record* self, const std::string& name, const nb::dict& fields) {
             new (self) Record(find_struct(name));
             self->set_all(fields);
           })
      .def("__getattr__", &Record::get_named)
      .def("__setattr__", &Record::set_attribute, nb::arg("name"), nb::arg("value").none());

  nb::class_<Context>(m, "Context")
      .def(nb::init<const nb::dict&>())
      .def_prop_ro("device", [](const Context& c) { return name(c.place()); })
      .def("info", &Context::info)
      .def("kernels", &Context::kernels)
      .def("save_kernels", &Context::save_kernels);

  nb::class_<Plan>(m, "Plan")
      .def("__call__",
           [](const Plan& p, const nb::args& args, const nb::kwargs& kwargs) { return p.run(args, kwargs); })
      .def_prop_ro("scratch_bytes", [](const Plan& p) { return p.workspace().first; })
      .def_prop_ro("sync_bytes", [](const Plan& p) { return p.workspace().second; })
      .def("explain", &Plan::explain)
      .def("_time", &Plan::time);

  nb::class_<Operation>(m, "Operation")
      .def(nb::init<const std::string&, nb::object>())
      .def("run", &Operation::run)
      .def("plan", &Operation::plan, nb::keep_alive<0, 1>())
      .def("supports", &Operation::supports);

  bind_page_pool(m);
}
