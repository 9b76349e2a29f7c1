// SPDX-License-Identifier: Apache-2.0
// Checks and times the kernels of this folder on the first GPU: run PREFILL.cubin DECODE.cubin. See README.md.
#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shared/params/attention.h"

using namespace fovea;

namespace {

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = "";
  cuGetErrorString(result, &text);
  std::printf("%s: %s\n", what, text);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

// The constants that README.md compiles the kernels with.
constexpr unsigned kThreads = 128, kSharedBytes = 112 * 1024, kBlockRows = 128, kLeastTiles = 1;

struct Case {
  const char* name;
  int batch, q_len, kv_len, heads, kv_heads, page;  // page 0: contiguous
  bool causal;
};
constexpr int kDim = 128;

// Device memory of one case, and the block that describes it.
class Problem {
 public:
  explicit Problem(const Case& c) : c_(c) {
    page_ = c.page ? c.page : c.kv_len;
    columns_ = (c.kv_len + page_ - 1) / page_;
    const size_t kv = static_cast<size_t>(c.batch) * columns_ * page_ * c.kv_heads * kDim;
    q_ = random(static_cast<size_t>(c.batch) * c.q_len * c.heads * kDim, 2);
    k_ = random(kv, 2);
    v_ = random(kv, 1);
    for (int i = 0; i <= c.batch; ++i) cu_.push_back(i * c.q_len);
    lens_.assign(static_cast<size_t>(c.batch), c.kv_len);
    for (int i = 0; i < c.batch * columns_; ++i) pages_.push_back(i);
    std::shuffle(pages_.begin(), pages_.end(), rng_);
    out_.resize(q_.size());
    lse_.resize(q_.size() / kDim);
    describe();
  }
  ~Problem() {
    for (CUdeviceptr p : owned_) cuMemFree(p);
  }

  const AttentionArgs& args() const { return args_; }
  double bytes() const { return 2.0 * static_cast<double>(k_.size()) * 2; }
  double flops() const {
    return 4.0 * c_.batch * c_.heads * c_.q_len * static_cast<double>(c_.kv_len) * kDim *
           (c_.causal && c_.q_len > 1 ? 0.5 : 1);
  }

  // The largest error of the output and of the LSE against f64.
  std::pair<double, double> errors() {
    CHECK(cuMemcpyDtoH(out_.data(), out_memory_, out_.size() * 2));
    CHECK(cuMemcpyDtoH(lse_.data(), lse_memory_, lse_.size() * 4));
    double worst = 0, worst_lse = 0;
    for (int row = 0; row < c_.batch * c_.q_len; ++row) {
      for (int head = 0; head < c_.heads; ++head) {
        const std::vector<double> want = reference(row, head);
        const size_t at = static_cast<size_t>(row) * c_.heads + head;
        for (int d = 0; d < kDim; ++d) worst = later(worst, std::abs(bf16_to_f32(out_[at * kDim + d]) - want[d]));
        worst_lse = later(worst_lse, std::abs(lse_[at] - want[kDim]));
      }
    }
    return {worst, worst_lse};
  }

 private:
  static double later(double worst, double error) { return error <= worst ? worst : error; }  // keeps a NaN

  std::vector<uint16_t> random(size_t n, float scale) {
    std::uniform_real_distribution<float> uniform(-scale, scale);
    std::vector<uint16_t> values(std::min<size_t>(n, 1 << 22));
    for (uint16_t& x : values) x = f32_to_bf16(uniform(rng_));
    for (size_t have = values.size(); have < n; have = values.size()) {
      values.insert(values.end(), values.begin(),
                    values.begin() + static_cast<std::ptrdiff_t>(std::min(have, n - have)));
    }
    return values;
  }

  template <class T>
  void* upload(const std::vector<T>& values) {
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, values.size() * sizeof(T)));
    CHECK(cuMemcpyHtoD(p, values.data(), values.size() * sizeof(T)));
    owned_.push_back(p);
    return reinterpret_cast<void*>(p);
  }
  static View view(void* data, Dtype type, std::initializer_list<i64_t> shape) {
    View v{.data = data, .dtype = type, .rank = static_cast<int>(shape.size()), .block_bytes = dtype_block_bytes(type)};
    std::copy(shape.begin(), shape.end(), v.shape);
    i64_t stride = 1;
    for (int i = v.rank - 1; i >= 0; --i) {
      v.stride[i] = stride;
      stride *= v.shape[i];
    }
    return v;
  }

  void describe() {
    const i64_t rows = static_cast<i64_t>(c_.batch) * c_.q_len;
    AttentionSpec& s = args_.spec;
    s.q = s.out = Dtype::bf16;
    s.has_lse = 1;
    s.batch = c_.batch;
    s.tokens = rows;
    s.max_q_len = c_.q_len;
    s.heads = c_.heads;
    s.group = c_.heads / c_.kv_heads;
    s.scale = 1 / std::sqrt(static_cast<float>(kDim));
    s.mask.kind = c_.causal ? MaskKind::causal : MaskKind::none;
    std::vector<uint16_t> poison(out_.size(), 0xFFFF);
    args_.q = view(upload(q_), Dtype::bf16, {1, rows, c_.heads, kDim});
    args_.out = view(upload(poison), Dtype::bf16, {1, rows, c_.heads, kDim});
    args_.lse = view(upload(lse_), Dtype::f32, {1, rows, c_.heads});
    args_.cu_seqlens_q = view(upload(cu_), Dtype::i32, {c_.batch + 1});
    out_memory_ = reinterpret_cast<CUdeviceptr>(args_.out.data);
    lse_memory_ = reinterpret_cast<CUdeviceptr>(args_.lse.data);
    KvView& kv = args_.kv[0];
    kv.spec.heads = c_.kv_heads;
    kv.spec.d_k = kv.spec.d_v = kDim;
    kv.spec.page_size = page_;
    kv.spec.layout = c_.page ? KvLayout::paged : KvLayout::contiguous;
    kv.spec.has_kv_lens = 1;
    kv.spec.max_len = c_.kv_len;
    kv.pages = static_cast<i64_t>(c_.batch) * columns_;
    kv.kv_lens = view(upload(lens_), Dtype::i32, {c_.batch});
    if (c_.page) kv.page_table = view(upload(pages_), Dtype::i32, {c_.batch, columns_});
    const i64_t token = static_cast<i64_t>(c_.kv_heads) * kDim * 2;
    kv.k = {static_cast<char*>(upload(k_)), page_ * token, token, kDim * 2};
    kv.v = {static_cast<char*>(upload(v_)), page_ * token, token, kDim * 2};
    s.kv[0] = kv.spec;
  }

  double element(const std::vector<uint16_t>& side, int b, int t, int kv_head, int d) const {
    const size_t page = c_.page ? static_cast<size_t>(pages_[static_cast<size_t>(b * columns_ + t / page_)]) : b;
    return bf16_to_f32(side[((page * page_ + t % page_) * c_.kv_heads + kv_head) * kDim + d]);
  }

  // Output of one row and head, then its LSE.
  std::vector<double> reference(int row, int head) const {
    const int b = row / c_.q_len, kv_head = head * c_.kv_heads / c_.heads;
    const int seen = c_.causal ? c_.kv_len - c_.q_len + row % c_.q_len + 1 : c_.kv_len;
    std::vector<double> logits(static_cast<size_t>(seen)), result(kDim + 1);
    for (int t = 0; t < seen; ++t) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d) {
        dot += bf16_to_f32(q_[(static_cast<size_t>(row) * c_.heads + head) * kDim + d]) * element(k_, b, t, kv_head, d);
      }
      logits[t] = dot / std::sqrt(static_cast<double>(kDim));
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (int t = 0; t < seen; ++t) {
      const double weight = std::exp(logits[t] - top);
      sum += weight;
      for (int d = 0; d < kDim; ++d) result[d] += weight * element(v_, b, t, kv_head, d);
    }
    for (int d = 0; d < kDim; ++d) result[d] /= sum;
    result[kDim] = top + std::log(sum);
    return result;
  }

  Case c_;
  int page_ = 0, columns_ = 0;
  std::mt19937 rng_{1};
  std::vector<uint16_t> q_, k_, v_, out_;
  std::vector<float> lse_;
  std::vector<int> cu_, lens_, pages_;
  std::vector<CUdeviceptr> owned_;
  CUdeviceptr out_memory_ = 0, lse_memory_ = 0;
  AttentionArgs args_;
};

struct Kernels {
  CUfunction prefill, decode;
  CUdeviceptr pieces, arrived;
  int multiprocessors;
};

CUfunction load(const char* file, const char* entry) {
  std::ifstream in(file, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(in)), {});
  CUmodule module_ = nullptr;
  CUfunction function = nullptr;
  CHECK(cuModuleLoadData(&module_, image.data()));
  CHECK(cuModuleGetFunction(&function, module_, entry));
  CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSharedBytes));
  return function;
}

void launch(const Kernels& k, const Case& c, AttentionArgs args, CUstream stream) {
  if (c.q_len * args.spec.group <= 16) {
    void* pieces = reinterpret_cast<void*>(k.pieces);
    void* arrived = reinterpret_cast<void*>(k.arrived);
    int least_tiles = kLeastTiles;
    void* parameters[] = {&args, &pieces, &arrived, &least_tiles};
    CHECK(cuLaunchKernel(k.decode, static_cast<unsigned>(2 * k.multiprocessors), 1, 1, kThreads, 1, 1, kSharedBytes,
                         stream, parameters, nullptr));
  } else {
    const i64_t blocks = args.spec.tokens * args.spec.group / kBlockRows + c.batch;
    void* parameters[] = {&args};
    CHECK(cuLaunchKernel(k.prefill, static_cast<unsigned>(blocks), static_cast<unsigned>(c.kv_heads), 1, kThreads, 1, 1,
                         kSharedBytes, stream, parameters, nullptr));
  }
}

// Median milliseconds of a call, over four copies of the operands where these are small.
double time(const Kernels& k, const Case& c, const std::vector<Problem*>& problems, CUstream stream) {
  CUevent begin, end;
  CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  std::vector<float> times;
  for (size_t i = 0; i < 25; ++i) {
    CHECK(cuEventRecord(begin, stream));
    launch(k, c, problems[i % problems.size()]->args(), stream);
    CHECK(cuEventRecord(end, stream));
    CHECK(cuEventSynchronize(end));
    float ms = 0;
    CHECK(cuEventElapsedTime(&ms, begin, end));
    if (i > 4) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::printf("usage: run PREFILL.cubin DECODE.cubin\n"), 2;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Kernels k{};
  CHECK(cuDeviceGetAttribute(&k.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  k.prefill = load(argv[1], "attention_prefill_sm80");
  k.decode = load(argv[2], "attention_decode_sm80");
  CHECK(cuMemAlloc(&k.pieces, 64 << 20));
  CHECK(cuMemAlloc(&k.arrived, 1 << 16));
  CHECK(cuMemsetD8(k.arrived, 0, 1 << 16));

  for (const Case& c : {Case{"prefill", 2, 200, 333, 8, 2, 16, true}, Case{"prefill full", 1, 77, 500, 8, 2, 0, false},
                        Case{"decode", 3, 1, 1000, 8, 2, 16, true}, Case{"two queries", 5, 2, 77, 8, 2, 64, true}}) {
    Problem problem(c);
    launch(k, c, problem.args(), stream);
    CHECK(cuStreamSynchronize(stream));
    const auto [out, lse] = problem.errors();
    std::printf("check %-14s largest error: out %.5f, lse %.7f\n", c.name, out, lse);
  }
  for (const Case& c :
       {Case{"prefill", 16, 1024, 1024, 16, 16, 0, true}, Case{"prefill", 8, 2048, 2048, 16, 16, 0, true},
        Case{"prefill", 4, 4096, 4096, 16, 16, 0, true}, Case{"prefill", 2, 8192, 8192, 16, 16, 0, true},
        Case{"prefill", 1, 16384, 16384, 16, 16, 0, true}, Case{"prefill full", 1, 16384, 16384, 16, 16, 0, false},
        Case{"decode", 64, 1, 4096, 32, 8, 0, true}, Case{"decode", 64, 1, 4096, 32, 8, 64, true},
        Case{"decode", 64, 1, 4096, 32, 8, 16, true}, Case{"decode", 16, 1, 8192, 32, 8, 0, true},
        Case{"decode", 16, 1, 8192, 32, 8, 16, true}, Case{"decode", 1, 1, 131072, 32, 8, 64, true},
        Case{"decode", 256, 1, 1024, 32, 8, 64, true}, Case{"decode", 1, 1, 1024, 32, 8, 64, true}}) {
    Problem first(c);
    std::vector<Problem*> problems = {&first};
    std::vector<std::unique_ptr<Problem>> more;
    for (int i = 0; i < 3 && first.bytes() < 200e6; ++i) problems.push_back(more.emplace_back(new Problem(c)).get());
    const double ms = time(k, c, problems, stream);
    std::printf("%-13s %3d x %6d keys, heads %2d/%-2d page %2d  %8.4f ms  %6.1f TFLOP/s  %5.0f GB/s\n", c.name, c.batch,
                c.kv_len, c.heads, c.kv_heads, c.page, ms, first.flops() / ms / 1e9, first.bytes() / ms / 1e6);
  }
  return 0;
}
