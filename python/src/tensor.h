// SPDX-License-Identifier: Apache-2.0
// Tensors of any framework as fovea_tensor, by DLPack and without copies. Nothing here waits for a device.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "fovea/fovea.h"

namespace fovea::python {

namespace nb = nanobind;

struct Place {
  int32_t type = FOVEA_CPU, id = 0;
  bool operator==(const Place& other) const { return type == other.type && (type == FOVEA_CPU || id == other.id); }
};
std::string name(const Place& place);  // "cpu", "cuda:0"
nb::tuple as_tuple(const Place& place);

struct ExchangeApi;

// What is known of a class of tensors: how it is exported, and the row of _frameworks.py that allocates for it.
struct TensorType {
  const ExchangeApi* exchange = nullptr;
  nb::object framework;
  bool has_grad = false, immutable = false, host = false;  // host: never on another device
};
const TensorType& tensor_type(nb::handle object);

// The framework's current stream on a CUDA device.
void* current_stream(const TensorType& type, const Place& place);

// fovea.Tensor: a view with an element type of Fovea's own, or without memory, for planning.
struct Tensor {
  fovea_tensor view{};
  bool read_only = false;
  nb::object base, keep;  // the framework's tensor; what must live as long as the view
  Place place() const { return {view.device_type, view.device_id}; }
};

// `what` names the argument in errors.
Tensor import_tensor(nb::handle object, const char* what);
Tensor reinterpret(nb::handle base, int32_t dtype);
Tensor without_memory(nb::handle shape, int32_t dtype, const Place& place);

int32_t dtype_of(nb::handle name);  // "bf16" or a number
Place place_of(const std::string& text);

// Raises what stands for the code, with the library's message.
[[noreturn]] void raise(fovea_status code, const std::string& message);
inline void check(fovea_status code) {
  if (code != FOVEA_OK) raise(code, fovea_last_error());
}

}  // namespace fovea::python
