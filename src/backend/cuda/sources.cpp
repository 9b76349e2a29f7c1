// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/sources.h"

#include <algorithm>

namespace fovea::cuda {

namespace {

// The name in a line `#include "name"`; empty for any other line. Lines of inactive branches count too: a key that
// covers more than it must is only a compile too many.
std::string_view included_name(std::string_view line) {
  const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_blanks();
  if (!line.starts_with('#')) return {};
  line.remove_prefix(1);
  skip_blanks();
  if (!line.starts_with("include")) return {};
  line.remove_prefix(7);
  skip_blanks();
  if (!line.starts_with('"')) return {};
  line.remove_prefix(1);
  return line.substr(0, line.find('"'));
}

}  // namespace

const Sources& Sources::instance() {
  static const Sources sources(kEmbeddedFiles, kEmbeddedFileCount);
  return sources;
}

Sources::Sources(const EmbeddedFile* files, int count) {
  Hasher all;
  for (int i = 0; i < count; ++i) {
    Hasher one;
    one.text(files[i].name);
    one.text(files[i].text);
    files_.push_back({files[i].name, files[i].text, one.finish(), {}});
    all.hash(files_.back().digest);
  }
  digest_ = all.finish();
  for (Source& file : files_) {
    std::string_view rest = file.text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const Source* included = find(included_name(line));
      if (included != nullptr) file.includes.push_back(included);
    }
  }
}

const Source* Sources::find(std::string_view name) const {
  const auto found = std::lower_bound(files_.begin(), files_.end(), name,
                                      [](const Source& file, std::string_view wanted) { return file.name < wanted; });
  return found != files_.end() && found->name == name ? &*found : nullptr;
}

Status Sources::reachable(std::string_view file, std::vector<const Source*>& out) const {
  out.clear();
  const Source* first = find(file);
  if (first == nullptr) return {FOVEA_INTERNAL, "no kernel source named " + std::string(file)};
  out.push_back(first);
  for (size_t i = 0; i < out.size(); ++i) {
    for (const Source* included : out[i]->includes) {
      if (std::find(out.begin(), out.end(), included) == out.end()) out.push_back(included);
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Source* a, const Source* b) { return std::string_view(a->name) < b->name; });
  return {};
}

}  // namespace fovea::cuda
