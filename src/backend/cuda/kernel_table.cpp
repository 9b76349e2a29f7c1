// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_table.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace fovea::cuda {

namespace {

constexpr char kHead[] = "arch\tkernel\tregisters\tspills\tlocal\tshared\tthreads\tbytes\tnvrtc";
constexpr size_t kColumns = 9;

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t at = 0;; ++at) {
    const size_t end = std::min(line.find('\t', at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = end;
    if (end == line.size()) return cells;
  }
}

template <class T>
bool number(std::string_view cell, T& out) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), out);
  return error == std::errc() && end == cell.data() + cell.size();
}

}  // namespace

Status KernelTable::parse(const std::string& text, KernelTable& out) {
  KernelTable table;
  size_t at = 0;
  for (int line_number = 1; at < text.size(); ++line_number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line_number == 1 && line == kHead) continue;
    const std::vector<std::string_view> cells = split(line);
    TableRow row;
    Resources& used = row.resources;
    if (line_number == 1 || cells.size() != kColumns || !number(cells[2], used.registers) ||
        !number(cells[3], row.spill_bytes) || !number(cells[4], used.local_bytes) ||
        !number(cells[5], used.smem_bytes) || !number(cells[6], used.max_threads) || !number(cells[7], row.bytes)) {
      return invalid_value("table", "line " + std::to_string(line_number), "is no row of a table of kernels");
    }
    row.nvrtc = cells[8];
    table.rows_[{std::string(cells[0]), std::string(cells[1])}] = row;
  }
  out = std::move(table);
  return {};
}

std::string KernelTable::text() const {
  std::string text = std::string(kHead) + "\n";
  for (const auto& [key, row] : rows_) {
    const Resources& used = row.resources;
    text += key.first + "\t" + key.second;
    for (const int value : {used.registers, row.spill_bytes, used.local_bytes, used.smem_bytes, used.max_threads}) {
      text += "\t" + std::to_string(value);
    }
    text += "\t" + std::to_string(row.bytes) + "\t" + row.nvrtc + "\n";
  }
  return text;
}

void KernelTable::replace(const CudaArch& arch, const NvrtcVersion& version, const std::vector<BuiltKernel>& built) {
  const std::string of = name(arch);
  std::erase_if(rows_, [&](const auto& row) { return row.first.first == of; });
  for (const BuiltKernel& kernel : built)
    rows_[{of, kernel.name}] = {kernel.resources, kernel.spill_bytes, kernel.bytes, name(version)};
}

std::vector<std::string> KernelTable::new_spills(const CudaArch& arch, const NvrtcVersion& version,
                                                 const std::vector<BuiltKernel>& built) const {
  std::vector<std::string> problems;
  for (const BuiltKernel& kernel : built) {
    const auto row = rows_.find({name(arch), kernel.name});
    if (row == rows_.end() || row->second.nvrtc != name(version)) continue;
    const int had = row->second.resources.local_bytes, has = kernel.resources.local_bytes;
    if (has <= had) continue;
    problems.push_back(kernel.name + " for sm_" + name(arch) + " keeps " + std::to_string(has) +
                       " bytes of a thread in local memory: the table has " + std::to_string(had));
  }
  return problems;
}

std::vector<std::string> KernelTable::missing_names(const CudaArch& arch,
                                                    const std::vector<KernelRequest>& requests) const {
  std::set<std::string> names;
  for (const KernelRequest& request : requests) names.insert(name(request));
  std::vector<std::string> problems;
  for (const std::string& kernel : names) {
    if (rows_.contains({name(arch), kernel})) continue;
    problems.push_back(kernel + " for sm_" + name(arch) + " is not in the table");
  }
  return problems;
}

std::vector<std::string> KernelTable::other_names(const CudaArch& arch,
                                                  const std::vector<KernelRequest>& catalogue) const {
  std::set<std::string> names;
  for (const KernelRequest& request : catalogue) names.insert(name(request));
  std::vector<std::string> problems = missing_names(arch, catalogue);
  for (const auto& [key, row] : rows_) {
    if (key.first != name(arch) || names.contains(key.second)) continue;
    problems.push_back(key.second + " for sm_" + key.first + " is in the table, but no kernel of the catalogue");
  }
  return problems;
}

}  // namespace fovea::cuda
