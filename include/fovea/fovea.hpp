// SPDX-License-Identifier: Apache-2.0
// The C++20 face of Fovea: header-only over fovea.h. The parameter structs are the C structs under shorter names, used
// with designated initialisers; calls throw fovea::Error, or return a Result in their try_ form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fovea/fovea.h"

namespace fovea {

using Tensor = fovea_tensor;
using Exec = fovea_exec;
using Kv = fovea_kv;
using KvSide = fovea_kv_side;
using KvStream = fovea_kv_stream;
using RopeConfig = fovea_rope_config;
using ContextParams = fovea_context_params;
using DeviceInfo = fovea_device_info;
using PageCopy = fovea_page_copy;
using PagePoolStats = fovea_page_pool_stats;
#define FOVEA_OP(name, Name, NAME, value, text) using Name##Params = fovea_##name##_params;
#include "fovea/operations.def"
#undef FOVEA_OP

class Error : public std::runtime_error {
 public:
  Error(fovea_status code, const std::string& message) : std::runtime_error(message), code_(code) {}
  fovea_status code() const noexcept { return code_; }

 private:
  fovea_status code_;
};

// What a try_ call returns: OK, or a code with its message.
struct Result {
  fovea_status code = FOVEA_OK;
  std::string message;
  explicit operator bool() const noexcept { return code == FOVEA_OK; }
};

namespace detail {
inline Result result(fovea_status code) {
  return code == FOVEA_OK ? Result{} : Result{code, fovea_last_error()};
}
inline void check(fovea_status code) {
  if (code != FOVEA_OK) throw Error(code, fovea_last_error());
}

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr int32_t value = FOVEA_F32;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr int32_t value = FOVEA_U8;
};
template <>
struct dtype_of<int32_t> {
  static constexpr int32_t value = FOVEA_I32;
};
template <>
struct dtype_of<uint32_t> {
  static constexpr int32_t value = FOVEA_U32;
};
template <>
struct dtype_of<int64_t> {
  static constexpr int32_t value = FOVEA_I64;
};
template <>
struct dtype_of<uint64_t> {
  static constexpr int32_t value = FOVEA_U64;
};

template <class Params>
struct op_of;
#define FOVEA_OP(name, Name, NAME, value_, text)      \
  template <>                                         \
  struct op_of<Name##Params> {                        \
    static constexpr int32_t value = FOVEA_OP_##NAME; \
  };
#include "fovea/operations.def"
#undef FOVEA_OP
}  // namespace detail

// A packed view of host memory with an explicit element type.
inline Tensor tensor(const void* data, int32_t dtype, std::initializer_list<int64_t> shape) {
  Tensor t;
  detail::check(
      fovea_tensor_packed(const_cast<void*>(data), dtype, static_cast<int32_t>(shape.size()), shape.begin(), &t));
  return t;
}

// The same with strides, in elements.
inline Tensor tensor(const void* data, int32_t dtype, std::initializer_list<int64_t> shape,
                     std::initializer_list<int64_t> strides) {
  Tensor t = tensor(data, dtype, shape);
  if (strides.size() != shape.size()) throw Error(FOVEA_INVALID_VALUE, "strides: give one for each dimension of shape");
  int32_t i = 0;
  for (int64_t s : strides) t.stride[i++] = s;
  return t;
}

// A packed view whose element type follows from the pointer: float, uint8_t and the 32- and 64-bit integers.
template <class T>
Tensor tensor(const T* data, std::initializer_list<int64_t> shape) {
  return tensor(static_cast<const void*>(data), detail::dtype_of<T>::value, shape);
}

// The KV stream of a [pages, tokens, heads, dims] view in elements (permute strides for other orders).
inline KvStream stream(const Tensor& t) {
  if (t.rank != 4) throw Error(FOVEA_INVALID_VALUE, "stream: the view must have rank 4, [pages, tokens, heads, dims]");
  const int64_t bytes = fovea_dtype_bytes(t.dtype, 1);
  return {t.data, t.stride[0] * bytes, t.stride[1] * bytes, t.stride[2] * bytes};
}

// Lays out a pool of records: streams and record_version of `kv`. Returns its bytes; without `records` these alone
// count.
inline int64_t lay_out_records(Kv& kv, void* records = nullptr) {
  int64_t bytes = 0;
  detail::check(fovea_kv_record(&kv, records, &bytes));
  return bytes;
}

class Context;

// An immutable plan of one operation: see fovea_plan_run.
template <class Params>
class Plan {
 public:
  Plan(const Context& context, const Params& params);
  void run(const Params& params, const Exec& exec = {}) const {
    detail::check(fovea_plan_run(plan_.get(), &params, &exec));
  }
  Result try_run(const Params& params, const Exec& exec = {}) const {
    return detail::result(fovea_plan_run(plan_.get(), &params, &exec));
  }
  uint64_t scratch_bytes() const { return workspace().first; }
  uint64_t sync_bytes() const { return workspace().second; }
  std::string explain() const {
    uint64_t needed = 0;
    detail::check(fovea_plan_explain(plan_.get(), nullptr, 0, &needed));
    std::string text(needed, '\0');
    detail::check(fovea_plan_explain(plan_.get(), text.data(), needed, nullptr));
    text.resize(needed - 1);
    return text;
  }

 private:
  std::pair<uint64_t, uint64_t> workspace() const {
    std::pair<uint64_t, uint64_t> bytes;
    detail::check(fovea_plan_workspace(plan_.get(), &bytes.first, &bytes.second));
    return bytes;
  }
  struct Destroy {
    void operator()(fovea_plan* p) const { fovea_plan_destroy(p); }
  };
  std::unique_ptr<fovea_plan, Destroy> plan_;
};

struct Support {
  fovea_support answer = FOVEA_SUPPORT_NO;
  std::string reason;
  explicit operator bool() const noexcept { return answer != FOVEA_SUPPORT_NO; }
};

class Context {
 public:
  explicit Context(const ContextParams& params = {}) {
    fovea_context* c = nullptr;
    detail::check(fovea_context_create(&params, &c));
    context_.reset(c);
  }
  fovea_context* get() const noexcept { return context_.get(); }
  DeviceInfo info() const {
    DeviceInfo info;
    detail::check(fovea_context_info(context_.get(), &info));
    return info;
  }
  std::string kernels() const {
    uint64_t needed = 0;
    detail::check(fovea_context_kernels(context_.get(), nullptr, 0, &needed));
    std::string text(needed, '\0');
    detail::check(fovea_context_kernels(context_.get(), text.data(), needed, nullptr));
    text.resize(needed - 1);  // ends with a 0 of its own
    return text;
  }
  void save_kernels(const std::string& path) const {
    detail::check(fovea_context_save_kernels(context_.get(), path.c_str()));
  }
  template <class Params>
  Support supports(const Params& params) const {
    const fovea_support answer = fovea_supports(get(), detail::op_of<Params>::value, &params);
    return {answer, answer == FOVEA_SUPPORT_YES ? "" : fovea_last_error()};
  }
  template <class Params>
  Plan<Params> plan(const Params& params) const {
    return Plan<Params>(*this, params);
  }

 private:
  struct Destroy {
    void operator()(fovea_context* c) const { fovea_context_destroy(c); }
  };
  std::unique_ptr<fovea_context, Destroy> context_;
};

template <class Params>
Plan<Params>::Plan(const Context& context, const Params& params) {
  fovea_plan* p = nullptr;
  detail::check(fovea_plan_create(context.get(), detail::op_of<Params>::value, &params, &p));
  plan_.reset(p);
}

// One throwing and one non-throwing function per operation, for example attention and try_attention.
#define FOVEA_OP(name, Name, NAME, value, text)                                                         \
  inline void name(const Context& context, const Name##Params& params, const Exec& exec = {}) {         \
    detail::check(fovea_##name(context.get(), &params, &exec));                                         \
  }                                                                                                     \
  inline Result try_##name(const Context& context, const Name##Params& params, const Exec& exec = {}) { \
    return detail::result(fovea_##name(context.get(), &params, &exec));                                 \
  }
#include "fovea/operations.def"
#undef FOVEA_OP

// Host memory for the workspace of plans, grown to the largest asked for.
class HostWorkspace {
 public:
  template <class Params>
  Exec exec(const Plan<Params>& plan) {
    if (scratch_.size() < plan.scratch_bytes() + kAlign) scratch_.resize(plan.scratch_bytes() + kAlign);
    if (sync_.size() < plan.sync_bytes() + kAlign) sync_.assign(plan.sync_bytes() + kAlign, std::byte{0});
    return {.scratch = aligned(scratch_),
            .scratch_bytes = plan.scratch_bytes(),
            .sync = aligned(sync_),
            .sync_bytes = plan.sync_bytes()};
  }

 private:
  static constexpr size_t kAlign = 128;
  static void* aligned(std::vector<std::byte>& bytes) {
    void* p = bytes.data();
    size_t space = bytes.size();
    return std::align(kAlign, space - kAlign, p, space);
  }
  std::vector<std::byte> scratch_, sync_;
};

// What a bundle of kernels holds: see fovea_bundle_kernels.
inline std::string bundle_kernels(const std::string& path) {
  uint64_t needed = 0;
  detail::check(fovea_bundle_kernels(path.c_str(), nullptr, 0, &needed));
  std::string text(needed, '\0');
  detail::check(fovea_bundle_kernels(path.c_str(), text.data(), needed, nullptr));
  text.resize(needed - 1);
  return text;
}

// The book-keeping of a paged cache: see page_pool.h.
class PagePool {
 public:
  PagePool(int64_t pages, int32_t page_size) {
    fovea_page_pool* p = nullptr;
    detail::check(fovea_page_pool_create(pages, page_size, &p));
    pool_.reset(p);
  }
  int64_t open() {
    int64_t sequence = 0;
    detail::check(fovea_page_pool_open(get(), &sequence));
    return sequence;
  }
  void close(int64_t sequence) { detail::check(fovea_page_pool_close(get(), sequence)); }
  int64_t fork(int64_t sequence, int64_t tokens) {
    int64_t child = 0;
    detail::check(fovea_page_pool_fork(get(), sequence, tokens, &child));
    return child;
  }
  PageCopy append(int64_t sequence, int64_t tokens, int64_t* slots) {
    PageCopy copy;
    detail::check(fovea_page_pool_append(get(), sequence, tokens, slots, &copy));
    return copy;
  }
  void truncate(int64_t sequence, int64_t tokens) { detail::check(fovea_page_pool_truncate(get(), sequence, tokens)); }
  void drop_before(int64_t sequence, int64_t token) {
    detail::check(fovea_page_pool_drop_before(get(), sequence, token));
  }
  int64_t tokens(int64_t sequence) const {
    int64_t tokens = 0;
    detail::check(fovea_page_pool_table(get(), sequence, &tokens, nullptr, 0, nullptr));
    return tokens;
  }
  std::vector<int64_t> pages(int64_t sequence) const {
    int64_t count = 0;
    detail::check(fovea_page_pool_table(get(), sequence, nullptr, nullptr, 0, &count));
    std::vector<int64_t> ids(static_cast<size_t>(count));
    detail::check(fovea_page_pool_table(get(), sequence, nullptr, ids.data(), count, nullptr));
    return ids;
  }
  PagePoolStats stats() const {
    PagePoolStats stats;
    detail::check(fovea_page_pool_get_stats(get(), &stats));
    return stats;
  }
  fovea_page_pool* get() const noexcept { return pool_.get(); }

 private:
  struct Destroy {
    void operator()(fovea_page_pool* p) const { fovea_page_pool_destroy(p); }
  };
  std::unique_ptr<fovea_page_pool, Destroy> pool_;
};

}  // namespace fovea
