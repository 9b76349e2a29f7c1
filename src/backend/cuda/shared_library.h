// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened while the program runs, so that one binary serves machines with and without them.
#pragma once

#include <string>
#include <vector>

namespace fovea::cuda {

class SymbolBase;

// The functions wanted from one library; each Symbol adds itself.
using SymbolList = std::vector<SymbolBase*>;

class SymbolBase {
 public:
  SymbolBase(SymbolList& list, const char* name) : name_(name) { list.push_back(this); }
  SymbolBase(const SymbolBase&) = delete;
  SymbolBase& operator=(const SymbolBase&) = delete;
  const char* name() const { return name_; }
  void bind(void* address) { address_ = address; }
  const void* address() const { return address_; }

 protected:
  ~SymbolBase() = default;
  void* address_ = nullptr;

 private:
  const char* name_;
};

// Called like the function itself, once the library is open.
template <class Function>
class Symbol;
template <class R, class... Args>
class Symbol<R(Args...)> final : public SymbolBase {
 public:
  using SymbolBase::SymbolBase;
  R operator()(Args... args) const { return reinterpret_cast<R (*)(Args...)>(address_)(args...); }
};

// Opens the library and binds every symbol of the list. Answers an empty text, or why it cannot: then nothing stays
// open. An open library is never closed: libraries of drivers keep threads and state.
std::string open_library(const std::string& path, const SymbolList& symbols);

// The file that holds the code at `address`; empty where the loader does not say.
std::string library_path_of(const void* address);

}  // namespace fovea::cuda
