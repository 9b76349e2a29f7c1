// SPDX-License-Identifier: Apache-2.0
// What a CUDA device can do at most: copies inside its memory, and products of bf16 matrices.
#include <algorithm>
#include <cstring>

#include "bench/cuda_measure.h"
#include "bench/data.h"
#include "engine/error.h"

namespace fovea::bench {

namespace {

constexpr uint64_t kCopyBytes = uint64_t{1} << 30, kLeastCopyBytes = uint64_t{1} << 26;
constexpr int64_t kPasses = 30;     // the best one counts
constexpr int64_t kProduct = 8192;  // rows and columns of every matrix
constexpr uint64_t kProductWorkspace = uint64_t{64} << 20;

class Block {
 public:
  Block(CudaDevice& device, uint64_t bytes) : device_(device), memory_(device.allocate(bytes)) {}
  ~Block() { device_.release(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* get() const { return memory_; }

 private:
  CudaDevice& device_;
  void* memory_;
};

// cuBLASLt's interface, as far as one product needs it.
struct Cublaslt {
  using Handle = void*;
  struct Heuristic {  // cublasLtMatmulHeuristicResult_t
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
  };
  static_assert(sizeof(Heuristic) == 96);
  static constexpr int kCompute32F = 68, kReal32F = 0, kReal16BF = 14, kTransposeA = 3, kTransposed = 1,
                       kMostWorkspace = 1;

  LibraryCall<Handle*> create{"cublasLtCreate"};
  LibraryCall<Handle> destroy{"cublasLtDestroy"};
  LibraryCall<Handle*, int, int> desc_create{"cublasLtMatmulDescCreate"};
  LibraryCall<Handle, int, const void*, size_t> desc_set{"cublasLtMatmulDescSetAttribute"};
  LibraryCall<Handle> desc_destroy{"cublasLtMatmulDescDestroy"};
  LibraryCall<Handle*, int, uint64_t, uint64_t, int64_t> layout_create{"cublasLtMatrixLayoutCreate"};
  LibraryCall<Handle> layout_destroy{"cublasLtMatrixLayoutDestroy"};
  LibraryCall<Handle*> preference_create{"cublasLtMatmulPreferenceCreate"};
  LibraryCall<Handle, int, const void*, size_t> preference_set{"cublasLtMatmulPreferenceSetAttribute"};
  LibraryCall<Handle> preference_destroy{"cublasLtMatmulPreferenceDestroy"};
  LibraryCall<Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Heuristic*, int*> heuristic{
      "cublasLtMatmulAlgoGetHeuristic"};
  LibraryCall<Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*, const void*, Handle,
              void*, Handle, const void*, void*, size_t, CudaStream>
      matmul{"cublasLtMatmul"};

  template <class... Args, class... Given>
  void operator()(const LibraryCall<Args...>& call, Given... given) const {
    if (const int status = call.address(given...)) {
      throw app::Error(std::string(call.name) + ": status " + std::to_string(status));
    }
  }
};

void open_cublaslt(const std::string& where, Cublaslt& api) {
  std::vector<std::string> paths;
  for (const char* major : {"13", "12"}) {
    const std::string file = std::string("libcublasLt.so.") + major;
    if (where.empty()) {
      paths.insert(paths.end(), {file, "/usr/local/cuda/lib64/" + file});
    } else {
      paths.push_back(std::string(where).append("/").append(file));
    }
  }
  if (!where.empty()) paths.push_back(where);
  void* library = open_library(paths);
  if (library == nullptr) throw app::Error("libcublasLt is not there");
  const auto find = [&](auto&... calls) {
    const char* missing = nullptr;
    ((find_symbol(library, calls) || (missing = calls.name)), ...);
    if (missing != nullptr) throw app::Error(std::string("libcublasLt has no ") + missing);
  };
  find(api.create, api.destroy, api.desc_create, api.desc_set, api.desc_destroy, api.layout_create, api.layout_destroy,
       api.preference_create, api.preference_set, api.preference_destroy, api.heuristic, api.matmul);
}

// D = A^T B for square matrices: the order in which both are read along rows, as the weights of a model are.
class Product {
 public:
  explicit Product(CudaDevice& device) : device_(device), workspace_(device, kProductWorkspace) {}

  // Once. What was made before a failure is destroyed with the object.
  void open(const std::string& where) {
    open_cublaslt(where, api_);
    api_(api_.create, &handle_);
    api_(api_.desc_create, &desc_, Cublaslt::kCompute32F, Cublaslt::kReal32F);
    const int32_t transposed = Cublaslt::kTransposed;
    api_(api_.desc_set, desc_, Cublaslt::kTransposeA, static_cast<const void*>(&transposed), sizeof transposed);
    api_(api_.layout_create, &layout_, Cublaslt::kReal16BF, uint64_t{kProduct}, uint64_t{kProduct}, kProduct);
    api_(api_.preference_create, &preference_);
    api_(api_.preference_set, preference_, Cublaslt::kMostWorkspace, static_cast<const void*>(&kProductWorkspace),
         sizeof kProductWorkspace);
    int found = 0;
    api_(api_.heuristic, handle_, desc_, layout_, layout_, layout_, layout_, preference_, 1, &chosen_, &found);
    if (found < 1) throw app::Error("cuBLASLt has no bf16 product for this device");
  }
  ~Product() {
    if (preference_ != nullptr) api_.preference_destroy.address(preference_);
    if (layout_ != nullptr) api_.layout_destroy.address(layout_);
    if (desc_ != nullptr) api_.desc_destroy.address(desc_);
    if (handle_ != nullptr) api_.destroy.address(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void queue(const void* a, const void* b, void* d) const {
    const float one = 1, zero = 0;
    api_(api_.matmul, handle_, desc_, static_cast<const void*>(&one), a, layout_, b, layout_,
         static_cast<const void*>(&zero), static_cast<const void*>(d), layout_, d, layout_,
         static_cast<const void*>(chosen_.algorithm), workspace_.get(), static_cast<size_t>(kProductWorkspace),
         static_cast<CudaStream>(device_.stream()));
  }

 private:
  CudaDevice& device_;
  Block workspace_;
  Cublaslt api_;
  Cublaslt::Handle handle_ = nullptr, desc_ = nullptr, layout_ = nullptr, preference_ = nullptr;
  Cublaslt::Heuristic chosen_ = {};
};

double best(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

double copy_rate(CudaDevice& device, uint64_t bytes) {
  Data data(Data::kFilled, 1, device);
  const auto n = static_cast<int64_t>(bytes / 2);
  const Tensor from = data.random(FOVEA_BF16, {n}), to = data.output(FOVEA_BF16, {n});
  device.copy(to.data, from.data, bytes);
  const auto seconds = device.time(kPasses, [&](int64_t) { device.copy(to.data, from.data, bytes); });
  return 2 * static_cast<double>(bytes) / best(seconds);
}

double product_rate(CudaDevice& device, const std::string& cublaslt) {
  Product product(device);
  product.open(cublaslt);
  Data data(Data::kFilled, 1, device);
  const Tensor a = data.random(FOVEA_BF16, {kProduct, kProduct}), b = data.random(FOVEA_BF16, {kProduct, kProduct});
  const Tensor d = data.output(FOVEA_BF16, {kProduct, kProduct});
  for (int64_t i = 0; i < kPasses; ++i) product.queue(a.data, b.data, d.data);  // until the clocks have settled
  const double n = static_cast<double>(kProduct);
  return 2 * n * n * n / best(device.time(kPasses, [&](int64_t) { product.queue(a.data, b.data, d.data); }));
}

}  // namespace

Roof measure_cuda_roof(CudaDevice& device, const std::string& cublaslt) {
  Roof roof;
  uint64_t bytes = kCopyBytes;
  while (bytes > kLeastCopyBytes && 4 * bytes > device.size()) bytes /= 2;
  roof.copy_bytes_per_s = copy_rate(device, bytes);
  roof.copy_text = "cuMemcpyDtoD of " + std::to_string(bytes >> 20) + " MiB";
  try {
    roof.flops_per_s = product_rate(device, cublaslt);
    roof.flops_text = "cuBLASLt, " + std::to_string(kProduct) + "^3, random";
  } catch (const app::Error& e) {
    if (!cublaslt.empty()) throw app::Error("--cublaslt is " + cublaslt + ": " + e.what());
    roof.flops_text = e.what();
  }
  return roof;
}

}  // namespace fovea::bench
