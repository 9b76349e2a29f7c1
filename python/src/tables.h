// SPDX-License-Identifier: Apache-2.0
// What the binding knows of the C interface: rows made from include/fovea by tools/generate.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <string_view>

#include "fovea/fovea.h"

namespace fovea::python {

struct EnumValue {
  const char* name;  // "causal"
  int32_t value;
};

struct Enum {
  const char* name;  // "Mask"
  const EnumValue* values;
  size_t count;
};

enum class Kind : uint8_t {
  i32,
  u32,
  i64,
  u64,
  f32,
  f64,
  text,     // const char*
  chars,    // char[]
  address,  // void*
  floats,   // const float*
  tensor,
  tensors,  // const fovea_tensor*, counted by another field
  nested,   // another struct, in place
  pointer   // const another struct*, counted by another field where count_field is not -1
};

struct Field {
  const char* name;
  Kind kind;
  size_t offset;
  int count;        // of an array in place, else 1
  int enumeration;  // row of kEnums, or -1
  int structure;    // row of kStructs, or -1
  int count_field;  // the field that holds how many there are, or -1
  const char* doc;
};

struct Struct {
  const char* name;
  size_t size;
  const Field* fields;
  size_t count;
  void (*init)(void* at);  // with the defaults of C++
  const char* doc;
};

extern const Enum kEnums[];
extern const size_t kEnumCount;
extern const Struct kStructs[];
extern const size_t kStructCount;

}  // namespace fovea::python
