// SPDX-License-Identifier: Apache-2.0
// The checked-in table of what each kernel of the catalogue needs: one line for each kernel and architecture.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/build_bundle.h"

namespace fovea::cuda {

struct TableRow {
  Resources resources;
  int spill_bytes = 0;
  uint64_t bytes = 0;  // of the cubin
  std::string nvrtc;   // "13.0"
};

class KernelTable {
 public:
  // INVALID_VALUE with the number of a line that is none of a table.
  static Status parse(const std::string& text, KernelTable& out);
  std::string text() const;

  // Takes the rows of every kernel of one architecture for what the table has of it.
  void replace(const CudaArch& arch, const NvrtcVersion& version, const std::vector<BuiltKernel>& built);

  // Kernels that keep more in local memory than the table says; those of which it says nothing are left out. Another
  // version of NVRTC allocates registers in another way: then there is nothing to compare.
  std::vector<std::string> new_spills(const CudaArch& arch, const NvrtcVersion& version,
                                      const std::vector<BuiltKernel>& built) const;
  // Those of some kernels that are not in the table.
  std::vector<std::string> missing_names(const CudaArch& arch, const std::vector<KernelRequest>& requests) const;
  // Kernels of the catalogue that are not in the table, and rows that are of no kernel any more.
  std::vector<std::string> other_names(const CudaArch& arch, const std::vector<KernelRequest>& catalogue) const;

 private:
  std::map<std::pair<std::string, std::string>, TableRow> rows_;  // by architecture and name
};

}  // namespace fovea::cuda
