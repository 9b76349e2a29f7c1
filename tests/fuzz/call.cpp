// SPDX-License-Identifier: Apache-2.0
#include "fuzz/call.h"

#include <algorithm>
#include <cstring>

namespace fovea::fuzz {
namespace {

constexpr size_t kTail = 1 << 16;               // bytes that a struct_size may claim
constexpr int64_t kMostBytes = 1 << 18;         // of a tensor or a stream that gets memory
constexpr int64_t kMostElements = 1 << 16;      // the same
constexpr uint64_t kMostScratch = 64ull << 20;  // bytes
constexpr double kMostWork = 1 << 20;           // steps of a call that runs

struct Extent {
  Wide low = 0, high = 0;  // bytes from the first element to the first byte that is used, and behind the last
  Wide elements = 0;
};

struct Element {
  int64_t block = 0, bytes = 0;
};
Element element_of(int32_t dtype) {
  for (const int64_t block : {1, 32, 64, 256}) {
    const int64_t bytes = fovea_dtype_bytes(dtype, block);
    if (bytes > 0) return {block, bytes};
  }
  return {};
}

Wide floor_div(Wide a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

Extent extent_of(const fovea_tensor& t) {
  Extent e;
  const Element element = element_of(t.dtype);
  if (element.block == 0 || t.rank < 0 || t.rank > FOVEA_MAX_RANK) return e;
  Wide low = 0, high = 0;
  e.elements = 1;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] <= 0) return Extent{};
    const Wide step = static_cast<Wide>(t.shape[i] - 1) * t.stride[i];
    Wide& end = step < 0 ? low : high;
    end = std::clamp<Wide>(end + step, -(Wide{1} << 100), Wide{1} << 100);
    e.elements = std::min<Wide>(e.elements * t.shape[i], INT64_MAX);
  }
  e.low = floor_div(low, element.block) * element.bytes;
  e.high = (floor_div(high, element.block) + 1) * element.bytes;
  return e;
}

// Calls body(byte offset from the first element) for each element, or whole block of the last dimension.
template <class Body>
void each_element(const fovea_tensor& t, const Body& body) {
  const Element element = element_of(t.dtype);
  int64_t index[FOVEA_MAX_RANK] = {};
  for (;;) {
    int64_t offset = 0;
    for (int i = 0; i < t.rank; ++i) offset += index[i] * t.stride[i];
    body(static_cast<int64_t>(floor_div(offset, element.block)) * element.bytes, element.bytes);
    int i = t.rank - 1;
    for (; i >= 0; --i) {
      if (++index[i] < t.shape[i]) break;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

void mark(Block& b, const std::byte* at, int64_t bytes) {
  if (b.writable.empty()) b.writable.resize(b.bytes);
  const auto first = at - b.memory.get();
  std::fill_n(b.writable.begin() + first, bytes, true);
}

bool same_view(const fovea_tensor& a, const fovea_tensor& b) {
  return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.shape, a.shape + FOVEA_MAX_RANK, b.shape) &&
         std::equal(a.stride, a.stride + FOVEA_MAX_RANK, b.stride);
}

bool is_index(int32_t dtype) {
  return dtype == FOVEA_I32 || dtype == FOVEA_I64 || dtype == FOVEA_U64;
}

}  // namespace

std::byte* Call::raw_struct(size_t bytes) {
  regions_.push_back({std::unique_ptr<std::byte[]>(new std::byte[bytes + kTail]()), bytes});
  return regions_.back().memory.get();
}

void Call::pin(void* field, const void* value) {
  std::memcpy(field, &value, sizeof value);
  pins_.push_back({field, value});
}

void Call::give(fovea_tensor& t, int32_t dtype, std::initializer_list<int64_t> shape, std::vector<int64_t> values) {
  t.dtype = dtype;
  t.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), t.shape);
  int64_t step = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    t.stride[i] = step;
    step *= t.shape[i];
    // Rows of more than their length, of whole blocks.
    if (i == t.rank - 1 && in_.chance(32)) step += element_of(dtype).block;
  }
  for (Named& named : tensors_) {
    if (named.tensor == &t) named.values = std::move(values);
  }
}

void Call::alias(fovea_tensor& t, const fovea_tensor& other) {
  for (Named& named : tensors_) {
    if (named.tensor == &t) named.alias = &other;
  }
}

void Call::spoil() {
  for (int64_t words = in_.pick({0, 0, 1, 1, 2, 3}); words > 0; --words) {
    auto region = regions_.begin();
    std::advance(region, in_.range(0, static_cast<int64_t>(regions_.size()) - 1));
    const size_t bytes = in_.chance(128) ? 4 : 8;
    const size_t at = static_cast<size_t>(in_.range(0, static_cast<int64_t>((region->bytes - bytes) / 4))) * 4;
    const uint64_t word = in_.odd_word();
    std::memcpy(region->memory.get() + at, &word, bytes);
  }
  for (const Pin& p : pins_) std::memcpy(p.field, &p.value, sizeof p.value);
}

Block* Call::block(Wide bytes) {
  if (bytes > kMostBytes) return nullptr;
  Block& b = blocks_.emplace_back();
  b.bytes = static_cast<size_t>(bytes);
  b.memory.reset(new std::byte[b.bytes]);
  uint64_t state = in_.number<uint16_t>();
  const bool plain = state % 4 != 0;  // small numbers of every float type, or any bits
  for (std::byte& byte : std::span(b.memory.get(), b.bytes)) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(plain ? 0x38 + (state >> 61) : state >> 56);
  }
  return &b;
}

void Call::fill(Block& b, Named& named, const std::byte* first) {
  std::vector<int64_t>& values = named.values;
  if (values.empty() || !is_index(named.tensor->dtype)) return;
  if (in_.chance(24)) {
    values[static_cast<size_t>(in_.range(0, static_cast<int64_t>(values.size()) - 1))] =
        static_cast<int64_t>(in_.odd_word());
  }
  size_t i = 0;
  each_element(*named.tensor, [&](int64_t offset, int64_t bytes) {
    const int64_t value = values[i++ % values.size()];
    std::memcpy(b.memory.get() + (first - b.memory.get()) + offset, &value, static_cast<size_t>(bytes));
  });
}

void Call::take(Named& named) {
  fovea_tensor& t = *named.tensor;
  t.data = nullptr;
  const Extent e = extent_of(t);
  if (e.elements == 0) return;
  if (named.alias != nullptr && same_view(t, *named.alias) && named.alias->data != nullptr) {
    t.data = named.alias->data;
    const auto* at = static_cast<std::byte*>(t.data);
    for (Block& b : blocks_) {
      if (at < b.memory.get() || at >= b.memory.get() + b.bytes) continue;
      each_element(t, [&](int64_t offset, int64_t bytes) { mark(b, at + offset, bytes); });
    }
    return;
  }
  Block* b = e.elements > kMostElements || in_.chance(2) ? nullptr : block(e.high - e.low);
  if (b == nullptr) {
    if (named.access == Access::ignored) return;
    lacking_ += " tensor " + std::to_string(&named - tensors_.data());
    return;
  }
  std::byte* first = b->memory.get() - static_cast<int64_t>(e.low);
  t.data = first;
  fill(*b, named, first);
  if (named.access != Access::write) return;
  each_element(t, [&](int64_t offset, int64_t bytes) { mark(*b, first + offset, bytes); });
}

void Call::take_stream(fovea_kv_stream& s, const fovea_kv& kv, Wide vector_bytes, Access access, bool given) {
  s.base = nullptr;
  const int64_t counts[] = {kv.pages, kv.page_size, kv.heads},
                strides[] = {s.page_stride, s.token_stride, s.head_stride};
  if (!given || vector_bytes <= 0 || *std::min_element(counts, counts + 3) <= 0) return;
  Wide low = 0, high = vector_bytes, vectors = 1;
  for (int i = 0; i < 3; ++i) {
    const Wide step = static_cast<Wide>(counts[i] - 1) * strides[i];
    Wide& end = step < 0 ? low : high;
    end = std::clamp<Wide>(end + step, -(Wide{1} << 100), Wide{1} << 100);
    vectors = std::min<Wide>(vectors * counts[i], INT64_MAX);
  }
  Block* b = vectors > kMostElements ? nullptr : block(high - low);
  if (b == nullptr) {
    lacking_ += " a stream";
    return;
  }
  std::byte* base = b->memory.get() - static_cast<int64_t>(low);
  s.base = base;
  if (access != Access::write) return;
  for (int64_t p = 0; p < counts[0]; ++p) {
    for (int64_t t = 0; t < counts[1]; ++t) {
      for (int64_t h = 0; h < counts[2]; ++h) {
        mark(*b, base + p * strides[0] + t * strides[1] + h * strides[2], static_cast<int64_t>(vector_bytes));
      }
    }
  }
}

// A pool as fovea_kv_record lays it out; other strides of records have no memory.
void Call::take_records(const NamedCache& cache) {
  constexpr int64_t kAlign = 128;
  fovea_kv& kv = *cache.kv;
  fovea_kv laid = kv;
  int64_t bytes = 0;
  const auto same = [](const fovea_kv_stream& a, const fovea_kv_stream& b) {
    return a.page_stride == b.page_stride && a.token_stride == b.token_stride && a.head_stride == b.head_stride;
  };
  for (fovea_kv_stream* s : {&kv.k.data, &kv.k.scale, &kv.v.data, &kv.v.scale, &kv.k_rope}) s->base = nullptr;
  const bool fits = fovea_kv_record(&laid, nullptr, &bytes) == FOVEA_OK && same(laid.k.data, kv.k.data) &&
                    same(laid.k.scale, kv.k.scale) && same(laid.v.data, kv.v.data) && same(laid.v.scale, kv.v.scale) &&
                    same(laid.k_rope, kv.k_rope);
  Block* b = fits && bytes > 0 ? block(static_cast<Wide>(bytes) + kAlign) : nullptr;
  if (b == nullptr) {
    lacking_ += " records";
    return;
  }
  std::byte* at = b->memory.get();
  at += (kAlign - reinterpret_cast<uintptr_t>(at) % kAlign) % kAlign;
  fovea_kv_record(&kv, at, nullptr);
  if (cache.access == Access::write) mark(*b, at, bytes);
}

void Call::take(const NamedCache& cache) {
  fovea_kv& kv = *cache.kv;
  const auto coded = [](const fovea_kv_side& s) { return s.codec >= FOVEA_CODEC_I8 && s.codec <= FOVEA_CODEC_Q2; };
  if (coded(kv.k) || coded(kv.v)) return take_records(cache);
  const auto side = [&](fovea_kv_side& s, Wide dims, bool given) {
    const int64_t element = s.codec == FOVEA_CODEC_F32 ? 4 : s.codec == FOVEA_CODEC_FP8 ? 1 : 2;
    take_stream(s.data, kv, dims * element, cache.access, given && s.codec != 0);
    const int64_t scale = s.scale_dtype == FOVEA_F32 ? 4 : 2;
    const bool grouped = s.scale_kind == FOVEA_SCALE_GROUP;
    const bool computed = grouped || s.scale_kind == FOVEA_SCALE_TOKEN_HEAD;
    const Wide scales = grouped ? s.scale_group > 0 ? (dims + s.scale_group - 1) / s.scale_group : 0 : 1;
    take_stream(s.scale, kv, scales * scale, computed ? cache.access : Access::read,
                given && s.scale_kind != FOVEA_SCALE_NONE);
  };
  side(kv.k, static_cast<Wide>(kv.d_k) - kv.d_rope, true);
  side(kv.v, kv.d_v, kv.v_in_k == 0);
  take_stream(kv.k_rope, kv, static_cast<Wide>(kv.d_rope) * (kv.rope_dtype == FOVEA_F32 ? 4 : 2), cache.access,
              kv.d_rope != 0);
}

void Call::take_memory() {
  for (Named& named : tensors_) named.tensor->data = nullptr;
  for (Named& named : tensors_) take(named);
  for (const NamedCache& cache : caches_) take(cache);
  for (Block& b : blocks_) b.before.assign(b.memory.get(), b.memory.get() + b.bytes);
}

void Call::check_memory(bool may_write) const {
  for (const Block& b : blocks_) {
    for (size_t i = 0; i < b.bytes; ++i) {
      if (b.memory[i] == b.before[i]) continue;
      demand(may_write, "a refused call writes nothing:", fovea_last_error());
      demand(!b.writable.empty() && b.writable[i], "a call writes its outputs alone");
    }
  }
}

void Call::run(const Context& context, const std::function<double()>& work) {
  spoil();
  take_memory();
  const void* params = regions_.front().memory.get();
  const fovea_support answer = fovea_supports(context.get(), op_, params);
  const std::string reason = fovea_last_error();
  fovea_plan* raw = nullptr;
  const fovea_status planned = fovea_plan_create(context.get(), op_, params, &raw);
  const std::unique_ptr<fovea_plan, void (*)(fovea_plan*)> plan(raw, fovea_plan_destroy);
  demand((answer == FOVEA_SUPPORT_YES) == (planned == FOVEA_OK), "supports is planning:", reason.c_str());
  demand(reason == fovea_last_error(), "supports and planning give one reason:", reason.c_str());
  demand(reason.empty() == (planned == FOVEA_OK), "a refusal has a reason");
  demand(planned != FOVEA_INTERNAL, "no fault of the library:", reason.c_str());
  check_memory(false);
  if (planned != FOVEA_OK) {
    demand(fovea_call(context.get(), op_, params, nullptr) == planned, "a call is refused as its plan");
    return check_memory(false);
  }
  uint64_t scratch_bytes = 0, sync_bytes = 0, needed = 0;
  demand(fovea_plan_workspace(raw, &scratch_bytes, &sync_bytes) == FOVEA_OK, "a plan has a workspace");
  demand(fovea_plan_explain(raw, nullptr, 0, &needed) == FOVEA_OK && needed > 1, "a plan can be explained");
  demand(sync_bytes <= 64 << 10, "the sync of a stream is small");
  if (scratch_bytes > kMostScratch || (lacking_.empty() && work() > kMostWork)) return;
  std::vector<std::byte> scratch(scratch_bytes, std::byte{0xff});
  std::vector<uint64_t> sync((sync_bytes + 7) / 8);
  Exec exec;
  exec.scratch = scratch.data();
  exec.scratch_bytes = scratch_bytes;
  exec.sync = sync.data();
  exec.sync_bytes = sync_bytes;
  const fovea_status status =
      in_.chance(128) ? fovea_plan_run(raw, params, &exec) : fovea_call(context.get(), op_, params, &exec);
  const std::string message = fovea_last_error();
  demand(status == FOVEA_OK || status == FOVEA_INVALID_VALUE,
         "a planned call runs, or has a bad value:", message.c_str());
  demand((status == FOVEA_OK) == message.empty(), "an error has a message:", message.c_str());
  demand(lacking_.empty() || status != FOVEA_OK,
         "a call without its memory is refused:", (fovea_op_name(op_) + lacking_).c_str());
  // These report values that are not finite after they wrote; quantize looks first where it is told to.
  const bool late = op_ == FOVEA_OP_KV_APPEND ? message.find("stored as zeros") != std::string::npos
                                              : op_ == FOVEA_OP_QUANTIZE && exec.flags == 0;
  check_memory(status == FOVEA_OK || late);
  demand(std::all_of(sync.begin(), sync.end(), [](uint64_t word) { return word == 0; }), "sync is left zero");
}

}  // namespace fovea::fuzz
