// SPDX-License-Identifier: Apache-2.0
#include "tensor.h"

#include <cstring>
#include <memory>
#include <unordered_map>

#include "tables.h"

namespace fovea::python {

// DLPack's C structs (dlpack.h 1.x), under names of our own.
struct DlVersion {
  uint32_t major, minor;
};
struct DlManaged {
  fovea_dl_tensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlManagedVersioned {
  DlVersion version;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  uint64_t flags;
  fovea_dl_tensor tensor;
};
constexpr uint64_t kReadOnly = 1;

struct ExchangeApi {
  DlVersion version;
  const ExchangeApi* previous;
  void* allocate;
  void* from_object;
  void* to_object;
  int (*view_of_object)(void* object, fovea_dl_tensor* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

namespace {

const ExchangeApi* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api != nullptr && api->view_of_object != nullptr && api->current_stream != nullptr ? api : nullptr;
}

std::string dtype_text(nb::handle object) {
  return nb::str(nb::getattr(object, "dtype", nb::str("?"))).c_str();
}

// kDLCUDAHost and kDLCUDAManaged are memory of the host and of the device.
int32_t device_type(int32_t dl) {
  return dl == 3 ? FOVEA_CPU : dl == 13 ? FOVEA_CUDA : dl;
}

// `dtype` replaces the tensor's own where it is not 0; sizes of elements are equal, or bytes become blocks.
void fill(Tensor& out, fovea_dl_tensor dl, int32_t dtype, nb::handle object, const char* what) {
  dl.device_type = device_type(dl.device_type);
  const int bits = dl.type_bits;
  if (dtype != 0) dl.type_code = bits == 16 ? 2 : 1;  // a type of that size, to be replaced below
  const fovea_status code = fovea_tensor_from_dlpack(&dl, &out.view);
  if (code == FOVEA_INVALID_TYPE) {
    raise(code, std::string(what) + " has dtype " + dtype_text(object) +
                    ": must be float32, float16, bfloat16, float8_e4m3fn, uint8, or an integer of 32 or 64 bits");
  }
  if (code != FOVEA_OK) raise(code, std::string(what) + ": " + fovea_last_error());
  if (dtype == 0) return;
  const int64_t bytes = fovea_dtype_bytes(dtype, 1);
  if (bytes * 8 == bits) {
    out.view.dtype = dtype;
    return;
  }
  // A row of blocks: its length follows from the length of a block, found by asking.
  int64_t elements = 1;
  while (elements <= 4096 && fovea_dtype_bytes(dtype, elements) < 0) elements *= 2;
  const int64_t block = fovea_dtype_bytes(dtype, elements);
  const int last = out.view.rank - 1;
  if (bytes > 0 || bits != 8 || last < 0 || out.view.stride[last] != 1 || out.view.shape[last] % block != 0) {
    raise(FOVEA_INVALID_VALUE, std::string(what) + " of " + dtype_text(object) + " cannot be read as " +
                                   fovea_dtype_name(dtype) + ": elements must have its size; of blocks, rows must be " +
                                   "packed bytes of a multiple of " + std::to_string(block));
  }
  for (int i = 0; i < last; ++i) {
    if (out.view.stride[i] % block != 0) {
      raise(FOVEA_INVALID_VALUE, std::string(what) + ".stride[" + std::to_string(i) + "] is " +
                                     std::to_string(out.view.stride[i]) + ": must be a multiple of " +
                                     std::to_string(block));
    }
    out.view.stride[i] = out.view.stride[i] / block * elements;
  }
  out.view.dtype = dtype;
  out.view.shape[last] = out.view.shape[last] / block * elements;
}

void refuse_grad(nb::handle object, const char* what) {
  const nb::object requires_grad = object.attr("requires_grad");
  if (requires_grad.ptr() != Py_True) return;
  if (nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")())) {
    raise(FOVEA_INVALID_VALUE, std::string(what) +
                                   " requires grad, and Fovea has no backward pass: use torch.no_grad() or " + what +
                                   ".detach()");
  }
}

void by_capsule(Tensor& out, nb::handle object, int32_t dtype, const char* what, bool retry = true) {
  const TensorType& type = tensor_type(object);
  nb::object capsule;
  try {
    // Old producers do not know max_version. The caller's stream orders the work: with -1 no producer waits.
    const bool cpu =
        type.host || device_type(nb::cast<int32_t>(nb::object(object.attr("__dlpack_device__")()[0]))) == FOVEA_CPU;
    const nb::object method = object.attr("__dlpack__");
    try {
      static auto& version = *new nb::tuple(nb::make_tuple(1, 0));
      capsule = cpu ? method(nb::arg("max_version") = version)
                    : method(nb::arg("stream") = -1, nb::arg("max_version") = version);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      capsule = cpu ? method() : method(nb::arg("stream") = -1);
    }
  } catch (nb::python_error& error) {
    const std::string why = nb::str(error.value()).c_str();
    const nb::object exported = retry && !type.framework.is_none() ? type.framework.attr("export")(object) : nb::none();
    if (!exported.is_none()) return by_capsule(out, exported[0], dtype ? dtype : dtype_of(exported[1]), what, false);
    raise(FOVEA_INVALID_TYPE, std::string(what) + " of type " + nb::str(nb::handle(Py_TYPE(object.ptr()))).c_str() +
                                  " is no tensor that DLPack takes: " + why);
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed = static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) raise(FOVEA_INVALID_TYPE, std::string(what) + ": DLPack version is not 1");
    out.read_only = (managed->flags & kReadOnly) != 0;
    fill(out, managed->tensor, dtype, object, what);
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    fill(out, static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor, dtype, object, what);
  } else {
    raise(FOVEA_INVALID_TYPE, std::string(what) + ".__dlpack__() returned no DLPack capsule");
  }
  out.keep = capsule;
}

void import_into(Tensor& out, nb::handle object, int32_t dtype, const char* what) {
  const TensorType& type = tensor_type(object);
  if (type.has_grad) refuse_grad(object, what);
  out.base = nb::borrow(object);
  if (type.exchange == nullptr) return by_capsule(out, object, dtype, what);
  fovea_dl_tensor dl;
  if (type.exchange->view_of_object(object.ptr(), &dl) != 0) {
    nb::python_error error;
    raise(FOVEA_INVALID_TYPE, std::string(what) + ": " + nb::str(error.value()).c_str());
  }
  fill(out, dl, dtype, object, what);
}

}  // namespace

std::string name(const Place& place) {
  if (place.type == FOVEA_CPU) return "cpu";
  return (place.type == FOVEA_CUDA ? "cuda:" : "device type " + std::to_string(place.type) + ":") +
         std::to_string(place.id);
}

nb::tuple as_tuple(const Place& place) {
  return nb::make_tuple(place.type == FOVEA_CPU ? "cpu" : "cuda", place.id);
}

const TensorType& tensor_type(nb::handle object) {
  static auto& known = *new std::unordered_map<PyObject*, std::unique_ptr<TensorType>>;  // never freed: classes may be
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  auto& row = known[type];
  if (row == nullptr) {
    auto made = std::make_unique<TensorType>();
    made->exchange = exchange_of(type);
    made->framework = nb::module_::import_("fovea._frameworks").attr("framework_of")(nb::handle(type));
    made->has_grad = nb::hasattr(type, "requires_grad");
    made->host = !made->framework.is_none() && nb::cast<bool>(made->framework.attr("host"));
    made->immutable = !made->framework.is_none() && nb::cast<bool>(made->framework.attr("immutable"));
    Py_INCREF(type);
    row = std::move(made);
  }
  return *row;
}

void* current_stream(const TensorType& type, const Place& place) {
  if (type.exchange != nullptr) {
    void* stream = nullptr;
    if (type.exchange->current_stream(place.type, place.id, &stream) != 0) throw nb::python_error();
    return stream;
  }
  if (type.framework.is_none()) {
    raise(FOVEA_INVALID_TYPE, "stream: tensors of this type have no current stream; pass it as stream=");
  }
  return reinterpret_cast<void*>(nb::cast<uintptr_t>(type.framework.attr("stream")(as_tuple(place))));
}

Tensor import_tensor(nb::handle object, const char* what) {
  Tensor* wrapped = nullptr;
  if (nb::try_cast<Tensor*>(object, wrapped) && wrapped != nullptr) return *wrapped;
  Tensor out;
  import_into(out, object, 0, what);
  return out;
}

Tensor reinterpret(nb::handle base, int32_t dtype) {
  Tensor out;
  import_into(out, base, dtype, "base");
  return out;
}

Tensor without_memory(nb::handle shape, int32_t dtype, const Place& place) {
  int64_t sizes[FOVEA_MAX_RANK] = {};
  const size_t rank = nb::len(shape);
  if (rank > FOVEA_MAX_RANK) raise(FOVEA_INVALID_VALUE, "shape has " + std::to_string(rank) + " dimensions: at most 5");
  for (size_t i = 0; i < rank; ++i) sizes[i] = nb::cast<int64_t>(shape[i]);
  Tensor out;
  out.base = nb::none();
  check(fovea_tensor_packed(nullptr, dtype, static_cast<int32_t>(rank), sizes, &out.view));
  out.view.device_type = place.type;
  out.view.device_id = place.id;
  return out;
}

int32_t dtype_of(nb::handle given) {
  if (PyLong_Check(given.ptr())) return nb::cast<int32_t>(given);
  const nb::str text(given);
  std::string all;
  for (int32_t i = 1; i < 256; ++i) {
    const std::string_view row = fovea_dtype_name(i);
    if (row == text.c_str()) return i;
    if (row != "?") all += (all.empty() ? "" : ", ") + std::string(row);
  }
  raise(FOVEA_INVALID_VALUE, std::string("dtype is '") + text.c_str() + "': must be one of " + all);
}

Place place_of(const std::string& text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {FOVEA_CUDA, 0};
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5 && text.size() < 9 &&
      text.find_first_not_of("0123456789", 5) == std::string::npos) {
    return {FOVEA_CUDA, std::stoi(text.substr(5))};
  }
  raise(FOVEA_INVALID_VALUE, "device is '" + text + "': must be cpu, cuda or cuda:N");
}

void raise(fovea_status code, const std::string& message) {
  PyObject* type = code == FOVEA_INVALID_VALUE                               ? PyExc_ValueError
                   : code == FOVEA_INVALID_TYPE                              ? PyExc_TypeError
                   : code == FOVEA_UNSUPPORTED || code == FOVEA_NOT_COMPILED ? PyExc_NotImplementedError
                   : code == FOVEA_OUT_OF_MEMORY                             ? PyExc_MemoryError
                   : code == FOVEA_IO                                        ? PyExc_OSError
                                                                             : PyExc_RuntimeError;
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

}  // namespace fovea::python
