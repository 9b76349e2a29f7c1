// SPDX-License-Identifier: Apache-2.0
// Contexts, operations and plans as Python objects.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "record.h"

namespace fovea::python {

struct DestroyContext {
  void operator()(fovea_context* context) const { fovea_context_destroy(context); }
};
struct DestroyPlan {
  void operator()(fovea_plan* plan) const { fovea_plan_destroy(plan); }
};

class Context {
 public:
  explicit Context(const nb::dict& params);
  fovea_context* get() const { return context_.get(); }
  const Place& place() const { return place_; }
  nb::dict info() const;
  std::string kernels() const;
  void save_kernels(const std::string& path) const;

  static void set_default(nb::object context);
  static nb::object get_default(const Place& place);  // made at the first call

 private:
  std::unique_ptr<fovea_context, DestroyContext> context_;
  Place place_;
};

// What a call says beside its fields.
struct CallOptions {
  nb::object stream, context, status;
  bool check = false, early = false;
};

// The arguments of one call, with the tensor that decides about device and framework.
struct Call {
  explicit Call(Record fields) : record(std::move(fields)) {}

  Record record;
  CallOptions options;
  nb::dict given, wants;
  const TensorType* type = nullptr;
  Place place;
  nb::object first;  // that tensor
  const char* first_name = "";
};

class Operation {
 public:
  // `call` is the row of _calls.py: inputs, written fields, and outputs with a rule each.
  Operation(const std::string& name, nb::object call);

  nb::object run(const nb::tuple& args, const nb::dict& kwargs) const;
  nb::object plan(const nb::tuple& args, const nb::dict& kwargs) const;
  nb::tuple supports(const nb::tuple& args, const nb::dict& kwargs) const;

 private:
  friend class Plan;
  Call take(Record record, const nb::tuple& args, const nb::dict& kwargs, bool memory) const;
  bool take_option(nb::handle name, nb::handle value, CallOptions& options) const;
  void take_field(Call& call, int field, nb::handle value) const;
  void find_first(Call& call) const;
  void add_outputs(Call& call, bool memory) const;
  void check_written(const Call& call) const;
  nb::object results(const Call& call) const;
  nb::object context_of(const Call& call) const;
  void execute(const fovea_plan* plan, Call& call, int count = 1) const;
  std::string asked(nb::handle value, bool output) const;

  int op_ = 0;
  const Struct* info_ = nullptr;
  nb::object call_, make_;
  std::vector<int> inputs_, outputs_, required_, written_;
  std::vector<bool> is_output_;
  std::unordered_map<PyObject*, int> names_;  // interned names of fields
  std::vector<nb::object> name_objects_;
};

class Plan {
 public:
  Plan(const Operation* operation, std::unique_ptr<fovea_plan, DestroyPlan> plan, Record options, nb::object context)
      : operation_(operation), plan_(std::move(plan)), options_(std::move(options)), context_(std::move(context)) {}
  nb::object run(const nb::tuple& args, const nb::dict& kwargs) const;
  // Seconds of each of `count` runs that follow one another in C++ alone: what a call from Python is measured against.
  double time(int count, const nb::tuple& args, const nb::dict& kwargs) const;
  std::pair<uint64_t, uint64_t> workspace() const;
  std::string explain() const;

 private:
  const Operation* operation_;
  std::unique_ptr<fovea_plan, DestroyPlan> plan_;
  Record options_;
  nb::object context_;
};

}  // namespace fovea::python
