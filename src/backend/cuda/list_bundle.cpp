// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/list_bundle.h"

#include <cstdio>

#include "backend/cuda/bundle.h"
#include "backend/cuda/cubin.h"
#include "backend/cuda/sources.h"

namespace fovea::cuda {

namespace {

std::string line_of(const BundleRow& row, const std::string& name, const Resources& used) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " %llu bytes, %d registers, %d local, %d shared, %d threads\n",
                static_cast<unsigned long long>(row.bytes), used.registers, used.local_bytes, used.smem_bytes,
                used.max_threads);
  return hex(row.key) + " " + name + numbers;
}

}  // namespace

Status list_bundle(const std::string& path, std::string& out) {
  std::unique_ptr<Bundle> bundle;
  FOVEA_TRY(Bundle::inspect(path, bundle));
  const CudaArchRow* arch = find_cuda_arch(bundle->arch());
  const bool own = bundle->source_digest() == Sources::instance().digest();
  std::string text =
      "sm_" + bundle->arch() + ", " + std::to_string(bundle->count()) + " kernels, NVRTC " + name(bundle->version()) +
      ", " +
      (own ? "of this library's sources\n" : "of other kernel sources than this library's: it will not be used\n");
  for (size_t i = 0; i < bundle->count(); ++i) {
    const BundleRow& row = bundle->rows()[i];
    const std::string& name = bundle->names()[i];
    std::string cubin;
    FOVEA_TRY(bundle->read(row.key, cubin));
    Resources used;
    const Status status = read_resources(cubin, name.substr(0, name.find('<')), arch ? arch->arch : CudaArch{}, used);
    if (!status.ok()) return {FOVEA_IO, path + ": " + status.message()};
    text += line_of(row, name, used);
  }
  out = std::move(text);
  return {};
}

}  // namespace fovea::cuda
