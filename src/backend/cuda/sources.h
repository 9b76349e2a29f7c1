// SPDX-License-Identifier: Apache-2.0
// The texts that kernels are compiled from, as part of the library: src/shared, the tables of include/fovea, and
// src/backend/cuda/kernels.
#pragma once

#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"

namespace fovea::cuda {

struct EmbeddedFile {
  const char* name;  // as an #include spells it: "shared/view.h"
  const char* text;
};

// Written by cmake/embed.cmake, sorted by name.
extern const EmbeddedFile kEmbeddedFiles[];
extern const int kEmbeddedFileCount;

struct Source {
  const char* name;
  const char* text;
  Hash128 digest;                       // of name and text
  std::vector<const Source*> includes;  // directly, in order of name
};

class Sources {
 public:
  static const Sources& instance();  // of this library

  Sources(const EmbeddedFile* files, int count);
  const Source* find(std::string_view name) const;  // null: not embedded
  // The file and everything that it includes, in order of name.
  Status reachable(std::string_view file, std::vector<const Source*>& out) const;
  const Hash128& digest() const { return digest_; }  // of all of them
  const std::vector<Source>& all() const { return files_; }

 private:
  std::vector<Source> files_;
  Hash128 digest_;
};

}  // namespace fovea::cuda
