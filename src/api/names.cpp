// SPDX-License-Identifier: Apache-2.0
// Names, versions, defaults: what C sees of the tables and of the structs' initialisers.
#include <algorithm>
#include <string>

#include "api/context.h"
#include "fovea/fovea.h"
#include "ops/kv_record.h"

#define FOVEA_TEXT_(x) #x
#define FOVEA_TEXT(x) FOVEA_TEXT_(x)

namespace {

constexpr const char* kUnknown = "?";

template <class T>
void init(T* out) {
  if (out != nullptr) *out = T{};
}

}  // namespace

extern "C" {

const char* fovea_version(void) {
  return FOVEA_TEXT(FOVEA_VERSION_MAJOR) "." FOVEA_TEXT(FOVEA_VERSION_MINOR) "." FOVEA_TEXT(FOVEA_VERSION_PATCH);
}

const char* fovea_last_error(void) {
  return fovea::last_error();
}

const char* fovea_status_name(int32_t status) {
  switch (status) {
#define FOVEA_STATUS(name, NAME, value, text) \
  case value:                                 \
    return #name;
#include "fovea/status.def"
#undef FOVEA_STATUS
    default:
      return kUnknown;
  }
}

const char* fovea_dtype_name(int32_t dtype) {
  const fovea::DtypeRow* row = fovea::find_dtype(dtype);
  return row ? row->name : kUnknown;
}

const char* fovea_op_name(int32_t op) {
  switch (op) {
#define FOVEA_OP(name, Name, NAME, value, text) \
  case value:                                   \
    return #name;
#include "fovea/operations.def"
#undef FOVEA_OP
    default:
      return kUnknown;
  }
}

const char* fovea_codec_name(int32_t codec) {
  switch (codec) {
#define FOVEA_CODEC(name, NAME, value, dtype) \
  case value:                                 \
    return #name;
#include "fovea/codecs.def"
#undef FOVEA_CODEC
    default:
      return kUnknown;
  }
}

const char* fovea_mask_name(int32_t mask) {
  switch (mask) {
#define FOVEA_MASK(name, NAME, value, text) \
  case value:                               \
    return #name;
#include "fovea/masks.def"
#undef FOVEA_MASK
    default:
      return kUnknown;
  }
}

const char* fovea_scale_kind_name(int32_t kind) {
  switch (kind) {
#define FOVEA_SCALE_KIND(name, NAME, value, text) \
  case value:                                     \
    return #name;
#include "fovea/scale_kinds.def"
#undef FOVEA_SCALE_KIND
    default:
      return kUnknown;
  }
}

int64_t fovea_dtype_bytes(int32_t dtype, int64_t elements) {
  const fovea::DtypeRow* row = fovea::find_dtype(dtype);
  if (row == nullptr || elements < 0 || elements % row->block != 0) return -1;
  int64_t bytes = 0;
  return __builtin_mul_overflow(elements / row->block, row->bytes, &bytes) ? -1 : bytes;
}

fovea_status fovea_tensor_packed(void* data, int32_t dtype, int32_t rank, const int64_t* shape, fovea_tensor* out) {
  using fovea::invalid_value;
  return fovea::guarded([&]() -> fovea::Status {
    if (out == nullptr) return invalid_value("out", "null", "must point to where the view goes");
    if (fovea::find_dtype(dtype) == nullptr) {
      return fovea::invalid_type("dtype", dtype, "must be one of enum fovea_dtype");
    }
    if (rank < 0 || rank > FOVEA_MAX_RANK) {
      return invalid_value("rank", rank, "must be 0 to " FOVEA_TEXT(FOVEA_MAX_RANK));
    }
    if (shape == nullptr && rank > 0) return invalid_value("shape", "null", "must have rank entries");
    fovea_tensor view{.data = data, .dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; --i) {
      const std::string name = "shape[" + std::to_string(i) + "]";
      if (shape[i] < 0) return invalid_value(name, shape[i], "must not be negative");
      view.shape[i] = shape[i];
      view.stride[i] = stride;
      if (__builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride)) {
        return invalid_value(name, shape[i], "the view has more elements than 64 bits count");
      }
    }
    *out = view;
    return {};
  });
}

void fovea_context_params_init(fovea_context_params* params) {
  init(params);
}
void fovea_device_info_init(fovea_device_info* info) {
  init(info);
}
void fovea_exec_init(fovea_exec* exec) {
  init(exec);
}
void fovea_kv_init(fovea_kv* kv) {
  init(kv);
}
fovea_status fovea_kv_record(fovea_kv* kv, void* records, int64_t* bytes) {
  return fovea::guarded([&] { return fovea::lay_out_records(kv, records, bytes); });
}
void fovea_rope_config_init(fovea_rope_config* config) {
  init(config);
}

#define FOVEA_OP(name, Name, NAME, value, text)                    \
  void fovea_##name##_params_init(fovea_##name##_params* params) { \
    init(params);                                                  \
  }
#include "fovea/operations.def"
#undef FOVEA_OP

}  // extern "C"
