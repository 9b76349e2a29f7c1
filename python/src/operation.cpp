// SPDX-License-Identifier: Apache-2.0
#include "operation.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <string_view>

namespace fovea::python {

namespace {

template <class Ask>
std::string text(const Ask& ask) {
  uint64_t needed = 0;
  check(ask(nullptr, 0, &needed));
  std::string out(needed, '\0');
  check(ask(out.data(), needed, nullptr));
  out.resize(needed - 1);
  return out;
}

std::vector<nb::object>& defaults() {
  static auto& list = *new std::vector<nb::object>;
  return list;
}

// Addresses of workspaces and status words: what the framework allocated, seen through DLPack.
void* memory_of(nb::handle tensor, const char* what, uint64_t& bytes, const Place& place) {
  const Tensor t = import_tensor(tensor, what);
  if (!(t.place() == place)) {
    raise(FOVEA_INVALID_VALUE, std::string(what) + " is on " + name(t.place()) + ": must be on " + name(place));
  }
  int64_t elements = 1;
  for (int i = 0; i < t.view.rank; ++i) elements *= t.view.shape[i];
  bytes = static_cast<uint64_t>(fovea_dtype_bytes(t.view.dtype, elements));
  return t.view.data;
}

void* stream_handle(nb::handle stream) {
  if (nb::isinstance<nb::int_>(stream)) return reinterpret_cast<void*>(nb::cast<uintptr_t>(stream));
  for (const char* attribute : {"cuda_stream", "ptr"}) {
    const nb::object handle = nb::getattr(stream, attribute, nb::none());
    if (!handle.is_none()) return reinterpret_cast<void*>(nb::cast<uintptr_t>(handle));
  }
  if (nb::hasattr(stream, "__cuda_stream__")) {
    return reinterpret_cast<void*>(nb::cast<uintptr_t>(nb::object(stream.attr("__cuda_stream__")()[1])));
  }
  raise(FOVEA_INVALID_TYPE, std::string("stream is of type ") + nb::str(nb::handle(Py_TYPE(stream.ptr()))).c_str() +
                                ": must be an int, or an object with cuda_stream, ptr or __cuda_stream__");
}

}  // namespace

Context::Context(const nb::dict& params) {
  Record record(find_struct("context_params"));
  record.set_all(params);
  fovea_context* made = nullptr;
  const auto& p = *static_cast<const fovea_context_params*>(record.data());
  fovea_status code = FOVEA_OK;
  {
    nb::gil_scoped_release unlocked;
    code = fovea_context_create(&p, &made);
  }
  check(code);
  context_.reset(made);
  place_ = {p.device_type, p.device_id};
}

nb::dict Context::info() const {
  Record record(find_struct("device_info"));
  check(fovea_context_info(get(), static_cast<fovea_device_info*>(record.data())));
  nb::dict out;
  for (size_t i = 0; i < record.info().count; ++i) out[record.info().fields[i].name] = record.get(static_cast<int>(i));
  return out;
}

std::string Context::kernels() const {
  return text(
      [&](char* at, uint64_t size, uint64_t* needed) { return fovea_context_kernels(get(), at, size, needed); });
}

void Context::save_kernels(const std::string& path) const {
  check(fovea_context_save_kernels(get(), path.c_str()));
}

void Context::set_default(nb::object context) {
  const Place place = nb::cast<const Context&>(context).place();
  auto& all = defaults();
  const auto same = [&](const nb::object& c) { return nb::cast<const Context&>(c).place() == place; };
  const auto found = std::find_if(all.begin(), all.end(), same);
  if (found == all.end()) {
    all.push_back(std::move(context));
  } else {
    *found = std::move(context);
  }
}

nb::object Context::get_default(const Place& place) {
  for (const nb::object& context : defaults())
    if (nb::cast<const Context&>(context).place() == place) return context;
  nb::object made = nb::module_::import_("fovea").attr("Context")(name(place));
  set_default(made);
  return made;
}

Operation::Operation(const std::string& name, nb::object call)
    : info_(&find_struct(name + "_params")),
      call_(std::move(call)),
      make_(nb::module_::import_("fovea._outputs").attr("make")) {
  for (int32_t op = 1; op_ == 0; ++op)
    if (name == fovea_op_name(op)) op_ = op;
  const Record record(*info_);
  for (size_t i = 0; i < info_->count; ++i) {
    nb::object interned = nb::steal(PyUnicode_InternFromString(info_->fields[i].name));
    names_[interned.ptr()] = static_cast<int>(i);
    name_objects_.push_back(std::move(interned));
  }
  const auto list = [&](const char* attribute) {
    std::vector<int> fields;
    for (nb::handle field : nb::iter(call_.attr(attribute))) {
      const int i = record.find(field);
      if (i < 0) raise(FOVEA_INTERNAL, name + " has no field " + nb::str(field).c_str());
      fields.push_back(i);
    }
    return fields;
  };
  inputs_ = list("inputs");
  outputs_ = list("outputs");
  required_ = list("required");
  written_ = list("written");
  is_output_.resize(info_->count);
  for (const int i : outputs_) is_output_[i] = true;
}

bool Operation::take_option(nb::handle name, nb::handle value, CallOptions& options) const {
  const std::string_view key = nb::cast<const char*>(name);
  if (key == "stream") {
    options.stream = nb::borrow(value);
  } else if (key == "context") {
    if (!value.is_none() && !nb::isinstance<Context>(value))
      raise(FOVEA_INVALID_TYPE, "context: must be a fovea.Context");
    options.context = nb::borrow(value);
  } else if (key == "status") {
    options.status = nb::borrow(value);
  } else if (key == "check") {
    options.check = nb::cast<bool>(value);
  } else if (key == "early") {
    options.early = nb::cast<bool>(value);
  } else {
    return false;
  }
  return true;
}

// Outputs are tensors, or say what is to be allocated: True, an element type by name, a shape.
void Operation::take_field(Call& call, int field, nb::handle value) const {
  if (value.is_none() || (is_output_[field] && value.ptr() == Py_False)) return;
  const bool wish = is_output_[field] &&
                    (value.ptr() == Py_True || nb::isinstance<nb::str>(value) || nb::isinstance<nb::tuple>(value));
  if (wish) {
    call.wants[name_objects_[field]] = value;
    return;
  }
  call.record.set(field, value);
}

Call Operation::take(Record record, const nb::tuple& args, const nb::dict& kwargs, bool memory) const {
  Call call(std::move(record));
  if (args.size() > inputs_.size()) {
    raise(FOVEA_INVALID_TYPE, std::string(fovea_op_name(op_)) + " takes " + std::to_string(inputs_.size()) +
                                  " positional arguments, but " + std::to_string(args.size()) + " were given");
  }
  for (size_t i = 0; i < args.size(); ++i) take_field(call, inputs_[i], args[i]);
  for (auto [key, value] : kwargs) {
    auto found = names_.find(key.ptr());
    int field = found == names_.end() ? -1 : found->second;
    if (field < 0 && !take_option(key, value, call.options)) field = call.record.find(key);
    if (field < 0 && !take_option(key, value, call.options)) {
      raise(FOVEA_INVALID_TYPE, std::string(fovea_op_name(op_)) + "() has no argument '" + nb::str(key).c_str() + "'");
    }
    if (field >= 0 && call.record.given(field).is_valid()) {
      raise(FOVEA_INVALID_TYPE,
            std::string(fovea_op_name(op_)) + "() got two values for '" + nb::str(key).c_str() + "'");
    }
    if (field >= 0) take_field(call, field, value);
  }
  for (const int field : inputs_) {
    const Kind kind = info_->fields[field].kind;
    const bool optional = std::string_view(info_->fields[field].doc).find("absent where") != std::string_view::npos;
    if (!call.record.given(field).is_valid() && !optional && kind != Kind::pointer) {
      raise(FOVEA_INVALID_TYPE,
            std::string(fovea_op_name(op_)) + "() misses the argument '" + info_->fields[field].name + "'");
    }
  }
  find_first(call);
  add_outputs(call, memory);
  if (memory) check_written(call);
  call.record.check_places(call.place, call.first_name);
  return call;
}

// The first input decides; of an operation without tensors among them (kv_copy), the cache.
void Operation::find_first(Call& call) const {
  for (const int field : inputs_) {
    const nb::handle given = call.record.given(field);
    if (!given.is_valid()) continue;
    const Field& row = info_->fields[field];
    nb::object tensor = nb::borrow(given);
    const Record* child = nullptr;
    if (row.kind == Kind::tensors) {
      if (nb::len(given) == 0) continue;
      tensor = given[0];
    } else if (row.kind == Kind::pointer) {
      if (call.record.children(field).empty()) continue;
      child = call.record.children(field)[0].get();
      const std::string_view kind = child->info().name;
      const char* name = kind == "kv" ? "k" : kind == "sample_params" ? "logits" : nullptr;
      if (name == nullptr) continue;
      tensor = child->get_named(nb::str(name));
      if (tensor.is_none() || nb::isinstance<Record>(tensor)) continue;
    } else if (row.kind != Kind::tensor) {
      continue;
    }
    Tensor* wrapped = nullptr;
    if (nb::isinstance<Tensor>(tensor)) wrapped = nb::cast<Tensor*>(tensor);
    if (row.kind == Kind::tensor) {
      const fovea_tensor& view = *call.record.tensor(field);
      call.place = {view.device_type, view.device_id};
    } else {
      call.place =
          child != nullptr && child->cache_place() ? *child->cache_place() : import_tensor(tensor, row.name).place();
    }
    call.first = wrapped != nullptr && !wrapped->base.is_none() ? wrapped->base : tensor;
    call.first_name = row.name;
    call.type = &tensor_type(call.first);
    return;
  }
  raise(FOVEA_INVALID_TYPE, std::string(fovea_op_name(op_)) + "() needs a tensor among its first arguments");
}

void Operation::add_outputs(Call& call, bool memory) const {
  const bool missing = std::any_of(required_.begin(), required_.end(), [&](int i) {
    return !call.record.given(i).is_valid() && !call.wants.contains(name_objects_[i]);
  });
  if (!missing && nb::len(call.wants) == 0) return;
  nb::dict given;
  for (size_t i = 0; i < info_->count; ++i)
    if (call.record.given(static_cast<int>(i)).is_valid())
      given[name_objects_[i]] = call.record.given(static_cast<int>(i));
  const bool explicit_stream = call.options.stream.is_valid() && !call.options.stream.is_none();
  const nb::object stream =
      explicit_stream ? nb::cast(reinterpret_cast<uintptr_t>(stream_handle(call.options.stream))) : nb::none();
  const nb::dict made =
      nb::cast<nb::dict>(make_(call_, given, call.wants, memory, call.type->framework, as_tuple(call.place), stream));
  for (auto [key, tensor] : made) call.record.set(call.record.find(key), tensor);
}

void Operation::check_written(const Call& call) const {
  for (const int i : written_) {
    for (const auto& cache : call.record.children(i)) {
      if (cache->sealed() == nullptr) continue;
      raise(FOVEA_INVALID_TYPE, std::string(info_->fields[i].name) + "." + cache->sealed() +
                                    " cannot be written to: " + cache->sealed_why());
    }
  }
  for (const int i : outputs_) {
    const nb::handle given = call.record.given(i);
    if (!given.is_valid()) continue;
    const char* field = info_->fields[i].name;
    Tensor* wrapped = nullptr;
    const nb::handle base = nb::try_cast<Tensor*>(given, wrapped) && wrapped ? wrapped->base : given;
    if (!call.record.writable(i)) raise(FOVEA_INVALID_VALUE, std::string(field) + " is read-only: it is written to");
    if (!base.is_none() && tensor_type(base).immutable) {
      raise(FOVEA_INVALID_TYPE,
            std::string(field) + ": arrays of this type are immutable; leave it out and it is returned");
    }
  }
}

nb::object Operation::context_of(const Call& call) const {
  if (!call.options.context.is_valid() || call.options.context.is_none()) return Context::get_default(call.place);
  return call.options.context;
}

nb::object Operation::results(const Call& call) const {
  nb::list all;
  for (size_t i = 0; i < info_->count; ++i)
    if (is_output_[i] && call.record.given(static_cast<int>(i)).is_valid())
      all.append(call.record.given(static_cast<int>(i)));
  const nb::object& framework = call.type->framework;
  if (!framework.is_none() && call.type->immutable) {
    for (size_t i = 0; i < nb::len(all); ++i) all[i] = framework.attr("finish")(all[i]);
  }
  return nb::len(all) == 0 ? nb::none() : nb::len(all) == 1 ? nb::object(all[0]) : nb::object(nb::tuple(all));
}

void Operation::execute(const fovea_plan* plan, Call& call, int count) const {
  fovea_exec exec;
  CallOptions& options = call.options;
  const nb::object& framework = call.type->framework;
  nb::object stream = nb::none(), workspace;
  if (options.stream.is_valid() && !options.stream.is_none()) {
    exec.stream = stream_handle(options.stream);
    stream = nb::cast(reinterpret_cast<uintptr_t>(exec.stream));
    if (call.place.type == FOVEA_CUDA && !framework.is_none()) {
      nb::list tensors;
      call.record.add_tensors(tensors);
      framework.attr("record")(tensors, stream, call.place.id);
    }
  } else if (call.place.type != FOVEA_CPU) {
    exec.stream = current_stream(*call.type, call.place);
  }
  check(fovea_plan_workspace(plan, &exec.scratch_bytes, &exec.sync_bytes));
  if (exec.scratch_bytes + exec.sync_bytes > 0) {
    if (framework.is_none()) raise(FOVEA_UNSUPPORTED, "no workspace can be allocated for tensors of this type");
    workspace = framework.attr("workspace")(as_tuple(call.place), stream, exec.scratch_bytes, exec.sync_bytes);
    if (exec.scratch_bytes > 0) exec.scratch = memory_of(workspace[0], "scratch", exec.scratch_bytes, call.place);
    if (exec.sync_bytes > 0) exec.sync = memory_of(workspace[1], "sync", exec.sync_bytes, call.place);
  }
  if (options.status.is_valid() && !options.status.is_none()) {
    uint64_t bytes = 0;
    exec.status = static_cast<uint32_t*>(memory_of(options.status, "status", bytes, call.place));
    if (bytes != 4)
      raise(FOVEA_INVALID_VALUE, "status has " + std::to_string(bytes) + " bytes: must be one u32 or i32");
  }
  if (options.check) exec.flags |= FOVEA_EXEC_CHECK;
  if (options.early) exec.flags |= FOVEA_EXEC_EARLY;
  fovea_status code = FOVEA_OK;
  {
    nb::gil_scoped_release unlocked;
    for (int i = 0; i < count && code == FOVEA_OK; ++i) code = fovea_plan_run(plan, call.record.data(), &exec);
  }
  check(code);
}

nb::object Operation::run(const nb::tuple& args, const nb::dict& kwargs) const {
  Call call = take(Record(*info_), args, kwargs, true);
  const nb::object context = context_of(call);
  fovea_plan* made = nullptr;
  fovea_status code = FOVEA_OK;
  {
    nb::gil_scoped_release unlocked;
    code = fovea_plan_create(nb::cast<const Context&>(context).get(), op_, call.record.data(), &made);
  }
  check(code);
  const std::unique_ptr<fovea_plan, DestroyPlan> plan(made);
  execute(plan.get(), call);
  return results(call);
}

nb::object Operation::plan(const nb::tuple& args, const nb::dict& kwargs) const {
  Call call = take(Record(*info_), args, kwargs, false);
  nb::object context = context_of(call);
  fovea_plan* made = nullptr;
  fovea_status code = FOVEA_OK;
  {
    nb::gil_scoped_release unlocked;
    code = fovea_plan_create(nb::cast<const Context&>(context).get(), op_, call.record.data(), &made);
  }
  check(code);
  return nb::cast(Plan(this, std::unique_ptr<fovea_plan, DestroyPlan>(made), call.record.options(), context));
}

nb::tuple Operation::supports(const nb::tuple& args, const nb::dict& kwargs) const {
  Call call = take(Record(*info_), args, kwargs, false);
  const nb::object context = context_of(call);
  const fovea_support answer = fovea_supports(nb::cast<const Context&>(context).get(), op_, call.record.data());
  return nb::make_tuple(static_cast<int>(answer), answer == FOVEA_SUPPORT_YES ? "" : fovea_last_error());
}

nb::object Plan::run(const nb::tuple& args, const nb::dict& kwargs) const {
  Call call = operation_->take(options_.copy_of_options(), args, kwargs, true);
  if (call.options.context.is_valid()) raise(FOVEA_INVALID_TYPE, "context: a plan has its own");
  operation_->execute(plan_.get(), call);
  return operation_->results(call);
}

double Plan::time(int count, const nb::tuple& args, const nb::dict& kwargs) const {
  Call call = operation_->take(options_.copy_of_options(), args, kwargs, true);
  const auto start = std::chrono::steady_clock::now();
  operation_->execute(plan_.get(), call, count);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
}

std::pair<uint64_t, uint64_t> Plan::workspace() const {
  std::pair<uint64_t, uint64_t> bytes;
  check(fovea_plan_workspace(plan_.get(), &bytes.first, &bytes.second));
  return bytes;
}

std::string Plan::explain() const {
  return text(
      [&](char* at, uint64_t size, uint64_t* needed) { return fovea_plan_explain(plan_.get(), at, size, needed); });
}

}  // namespace fovea::python
