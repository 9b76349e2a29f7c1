// SPDX-License-Identifier: Apache-2.0
#include "support/attention_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <sstream>

#include "oracle/kv64.h"
#include "oracle/numbers.h"
#include "support/check.h"

namespace fovea::test {
namespace {

std::string list(const std::vector<int64_t>& x) {
  std::string text = "{";
  for (size_t i = 0; i < x.size() && i < 12; ++i) text += (i ? "," : "") + std::to_string(x[i]);
  return text + (x.size() > 12 ? ",..}" : "}");
}

std::string side_text(const SideSpec& s) {
  return std::string(fovea_codec_name(s.codec)) + "/" + fovea_scale_kind_name(s.scale_kind) +
         (s.scale_kind ? std::string("/") + fovea_dtype_name(s.scale_dtype) : "") +
         (s.scale_group ? "/" + std::to_string(s.scale_group) : "");
}

void kv_text(std::ostream& o, const KvSpec& kv) {
  constexpr const char* kIndex[] = {"table", "csr", "contiguous", "ragged"};
  o << " kv[" << kIndex[static_cast<int>(kv.index)] << " " << name_of(kv.layout) << " page=" << kv.page_size
    << " heads=" << kv.heads << " d=" << kv.d_k << "/" << kv.d_v << " " << side_text(kv.k) << " "
    << (kv.v_in_k ? "v_in_k" : side_text(kv.v)) << " lens=" << list(kv.lens);
  if (!kv.starts.empty()) o << " starts=" << list(kv.starts);
  if (kv.d_rope) o << " d_rope=" << kv.d_rope << fovea_dtype_name(kv.rope_dtype);
  if (kv.v_table) o << " v_table";
  if (kv.shard_world > 1) o << " shard=" << kv.shard_rank << "/" << kv.shard_world << "x" << kv.shard_interleave;
  o << "]";
}

// Q may be drawn in a type that cannot hold it: keep it inside.
double fit(int32_t dtype, double x) {
  return std::clamp(x, -oracle::largest(dtype), oracle::largest(dtype));
}

}  // namespace

std::string AttentionCase::text() const {
  std::ostringstream o;
  o << "q_lens=" << list(q_lens) << " heads=" << heads << " q=" << fovea_dtype_name(q_dtype) << " ("
    << name_of(q_values) << ") out=" << fovea_dtype_name(out_dtype) << (padded ? " padded" : "")
    << (any_layout ? " strided" : "") << " mask=" << fovea_mask_name(options.mask);
  if (options.mask == FOVEA_MASK_WINDOW) o << "(" << options.window_left << "," << options.window_right << ")";
  if (options.mask == FOVEA_MASK_CHUNK) o << "(" << options.chunk_size << " from " << options.chunk_origin << ")";
  if (!mask_lens.empty()) o << " bits=" << list(mask_lens);
  if (options.scale != 0) o << " scale=" << options.scale;
  if (options.softcap != 0) o << " softcap=" << options.softcap;
  if (options.split_size) o << " split=" << options.split_size;
  if (options.batch_invariant) o << " batch_invariant";
  if (options.chunk_invariant) o << " chunk_invariant";
  o << (alibi ? " alibi" : "") << (alibi_batch ? "(batch)" : "") << (sinks ? " sinks" : "");
  for (const KvSpec& s : kv) kv_text(o, s);
  o << " k:" << name_of(k_values) << " v:" << name_of(v_values);
  return o.str();
}

AttentionCase simple_case(std::vector<int64_t> q_lens, std::vector<int64_t> kv_lens, int32_t heads, int32_t kv_heads,
                          int32_t d_k, int32_t d_v) {
  AttentionCase c;
  c.q_lens = std::move(q_lens);
  c.kv = {{.lens = std::move(kv_lens), .heads = kv_heads, .d_k = d_k, .d_v = d_v}};
  c.heads = heads;
  return c;
}

AttentionProblem::AttentionProblem(const AttentionCase& c, Rng& rng) : params(c.options) {
  // Queries and options come first: which keys are needed follows from them.
  kvs.resize(c.kv.size());
  params.kv = kvs.data();
  params.kv_segments = static_cast<int32_t>(c.kv.size());
  const auto nothing = [](int64_t, int64_t) { return false; };
  std::vector<std::unique_ptr<KvCache>> outline;  // only lens, starts and shards are read before the real caches stand
  for (size_t s = 0; s < c.kv.size(); ++s) {
    outline.push_back(std::make_unique<KvCache>(c.kv[s], rng, nothing));
    kvs[s] = outline.back()->kv();
  }
  make_queries(c, rng);
  make_options(c, rng);
  std::vector<int64_t> before(c.q_lens.size(), 0);
  for (size_t s = 0; s < c.kv.size(); ++s) {
    const auto ask = [&](bool (*sees)(const fovea_attention_params&, int64_t, int64_t, int64_t)) -> Needed {
      return [&, sees](int64_t b, int64_t t) {
        if (!c.poison) return true;
        const int64_t n = c.q_lens[static_cast<size_t>(b)];
        for (int64_t i = n - 1; i >= 0; --i) {
          if (sees(params, b, i, before[static_cast<size_t>(b)] + t)) return true;
        }
        return false;
      };
    };
    auto cache = std::make_unique<KvCache>(c.kv[s], rng, ask(oracle::in_interval));
    fill(*cache, c.kv[s], rng, c.k_values, c.v_values, ask(oracle::visible));
    for (size_t b = 0; b < before.size(); ++b) before[b] += c.kv[s].lens[b];
    caches.push_back(std::move(cache));
  }
  for (size_t s = 0; s < c.kv.size(); ++s) kvs[s] = caches[s]->kv();
}

void AttentionProblem::make_queries(const AttentionCase& c, Rng& rng) {
  const auto batch = static_cast<int64_t>(c.q_lens.size());
  const int64_t total = std::accumulate(c.q_lens.begin(), c.q_lens.end(), int64_t{0});
  std::vector<int64_t> shape{total, c.heads, c.kv[0].d_k};
  if (c.padded) {
    int64_t longest = 0;
    for (int64_t n : c.q_lens) longest = std::max(longest, n);
    shape = {batch, c.pad_front + longest + c.pad_back, c.heads, c.kv[0].d_k};
    q_lens = indices(c.q_lens, c.index_dtype, {batch});
    params.q_lens = q_lens;
    std::vector<int64_t> starts;
    for (int64_t n : c.q_lens) starts.push_back(rng.integer(0, c.pad_front + longest - n));
    if (c.pad_front) q_starts = indices(starts, c.index_dtype, {batch});
    params.q_starts = q_starts;
  } else {
    std::vector<int64_t> cu{0};
    for (int64_t n : c.q_lens) cu.push_back(cu.back() + n);
    cu_seqlens_q = indices(cu, c.index_dtype);
    params.cu_seqlens_q = cu_seqlens_q;
  }
  const int rank = static_cast<int>(shape.size());
  const auto layout = [&](int r) { return c.any_layout ? random_layout(rng, r) : Layout{}; };
  q = TensorBox(c.q_dtype, shape, layout(rank));
  params.q = q;
  const bool e4m3 = c.q_dtype == FOVEA_E4M3;
  for (int64_t b = 0; b < batch; ++b) {  // rows outside stay NaN
    const oracle::Sequence s = oracle::sequence_of(params, b);
    const int64_t first = s.first_row * c.heads * c.kv[0].d_k;
    const std::vector<double> x = draw(rng, c.q_values, s.n * c.heads, c.kv[0].d_k);
    for (size_t i = 0; i < x.size(); ++i) {
      q.set(first + static_cast<int64_t>(i), fit(c.q_dtype, e4m3 ? x[i] / c.options.q_scale : x[i]));
    }
  }
  std::vector<int64_t> lse_shape(shape.begin(), shape.end() - 1);
  shape.back() = c.kv[0].d_v;
  out = TensorBox(c.out_dtype, shape, layout(rank));
  params.out = out;
  if (c.lse) {
    lse = TensorBox(FOVEA_F32, lse_shape, layout(rank - 1));
    params.lse = lse;
  }
}

void AttentionProblem::make_options(const AttentionCase& c, Rng& rng) {
  const auto batch = static_cast<int64_t>(c.q_lens.size());
  if (c.alibi) {
    const int64_t n = c.alibi_batch ? batch * c.heads : c.heads;
    std::vector<double> slopes(static_cast<size_t>(n));
    for (double& s : slopes) s = 0.02 + 0.3 * rng.uniform();
    alibi_slopes =
        floats(slopes, FOVEA_F32, c.alibi_batch ? std::vector<int64_t>{batch, c.heads} : std::vector<int64_t>{c.heads});
    params.alibi_slopes = alibi_slopes;
  }
  if (c.sinks) {
    std::vector<double> logits(static_cast<size_t>(c.heads));
    for (double& s : logits) s = 1 + 2 * rng.normal();
    sinks = floats(logits);
    params.sinks = sinks;
  }
  if (!c.mask_lens.empty()) make_bits(c, rng);
}

void AttentionProblem::make_bits(const AttentionCase& c, Rng& rng) {
  const auto batch = static_cast<int64_t>(c.q_lens.size());
  mask_lens = indices(c.mask_lens, c.index_dtype, {batch});
  params.mask_lens = mask_lens;
  int64_t longest = 1;
  for (int64_t m : c.mask_lens) longest = std::max(longest, m);
  std::vector<int64_t> shape(q.view().shape, q.view().shape + q.view().rank - 2);
  const int64_t words = (longest + 31) / 32;
  shape.push_back(words);
  Layout layout;
  layout.pad.assign(shape.size(), 0);
  layout.pad.back() = rng.integer(0, 2);
  mask_bits = TensorBox(FOVEA_U32, shape, layout);
  params.mask_bits = mask_bits;
  mask_bits.fill([&](int64_t) {
    uint32_t word = 0;
    for (int bit = 0; bit < 32; ++bit) word |= static_cast<uint32_t>(rng.chance(c.bit_density)) << bit;
    return static_cast<double>(word);
  });
}

const oracle::Attention64& AttentionProblem::wanted() {
  if (wanted_) return *wanted_;
  wanted_ = std::make_unique<oracle::Attention64>(oracle::attention64(params));
  if (params.out.dtype == FOVEA_E4M3) {  // the cast saturates
    const double most = oracle::largest(FOVEA_E4M3) * params.out_scale;
    for (double& x : wanted_->out) x = std::clamp(x, -most, most);
  }
  return *wanted_;
}

void AttentionProblem::poison_outputs() {
  out.memory().fill(kPoison);
  lse.memory().fill(kPoison);
}

bool AttentionProblem::outputs_untouched() {
  return out.memory().all(kPoison) && lse.memory().all(kPoison);
}

::testing::AssertionResult AttentionProblem::empty_rows_exact() {
  const oracle::Attention64& want = wanted();
  const int64_t d = params.out.shape[params.out.rank - 1];
  for (size_t row = 0; row < want.lse.size(); ++row) {
    if (want.lse_bound[row] != 0) continue;
    for (int64_t e = 0; e < d; ++e) {
      const int64_t at = static_cast<int64_t>(row) * d + e;
      if (out.get(at) != 0) {
        return ::testing::AssertionFailure()
               << "a row without a visible key: out" << index_text(out, at) << " = " << out.get(at);
      }
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult AttentionProblem::right() {
  const oracle::Attention64& want = wanted();
  const double out_scale = params.out.dtype == FOVEA_E4M3 ? params.out_scale : 1.0;
  if (auto ok = within(out, want.out, want.out_bound, out_scale); !ok) return ok << " (out)";
  if (lse) {
    if (auto ok = within(lse, want.lse, want.lse_bound); !ok) return ok << " (lse)";
  }
  if (auto ok = empty_rows_exact(); !ok) return ok;
  if (!out.outside_untouched()) return ::testing::AssertionFailure() << "wrote outside `out`";
  if (lse && !lse.outside_untouched()) return ::testing::AssertionFailure() << "wrote outside `lse`";
  return ::testing::AssertionSuccess();
}

std::vector<std::byte> AttentionProblem::result_bits() const {
  std::vector<std::byte> bits = out.bits();
  if (lse) {
    const std::vector<std::byte> more = lse.bits();
    bits.insert(bits.end(), more.begin(), more.end());
  }
  return bits;
}

bool check_attention(AttentionProblem& problem) {
  bool good = true;
  for (const Backend& backend : backends(FOVEA_OP_ATTENTION)) {
    problem.poison_outputs();
    const Outcome result = run(backend, problem.params);
    if (result.refused) continue;
    EXPECT_EQ(result.code, FOVEA_OK) << backend.name << ": " << result.message;
    if (!result) return false;
    const auto right = problem.right();
    EXPECT_TRUE(right) << backend.name;
    good = good && right;
  }
  return good;
}

bool check_attention(const AttentionCase& c, Rng& rng) {
  bool good = true;
  {
    SCOPED_TRACE(c.text() + "; " + seed_note());
    AttentionProblem problem(c, rng);
    good = check_attention(problem);
  }
  for (const AttentionCase& narrow : narrow_forms(c)) {
    SCOPED_TRACE(narrow.text() + "; narrowed; " + seed_note());
    Rng other = rng;  // what follows in the test does not depend on the devices of the machine
    AttentionProblem problem(narrow, other);
    good = check_attention(problem) && good;
  }
  return good;
}

std::vector<AttentionCase> narrow_forms(const AttentionCase& c) {
  const bool devices = backends(FOVEA_OP_ATTENTION).size() > backends().size();
  if (!devices && std::getenv("FOVEA_TEST_NARROW") == nullptr) return {};
  const size_t turn = std::hash<std::string>{}(c.text());  // whatever ran before
  const bool wide_q = c.q_dtype == FOVEA_F32;
  const int32_t kind = c.q_dtype == FOVEA_F16 || c.q_dtype == FOVEA_BF16 ? c.q_dtype
                       : turn % 2                                        ? FOVEA_F16
                                                                         : FOVEA_BF16;
  bool changed = false;
  const auto narrow = [&](SideSpec& side) {
    const SideSpec before = side;
    if (side.codec != FOVEA_CODEC_FP8) side.codec = kind;  // the codecs have the numbers of their types
    if (side.scale_kind == FOVEA_SCALE_GROUP) side.scale_kind = FOVEA_SCALE_TOKEN_HEAD, side.scale_group = 0;
    changed = changed || before.codec != side.codec || before.scale_kind != side.scale_kind;
  };
  AttentionCase cache = c;
  for (KvSpec& s : cache.kv) {
    narrow(s.k);
    if (!s.v_in_k) narrow(s.v);
    changed = changed || (s.d_rope > 0 && s.rope_dtype != kind);
    if (s.d_rope > 0) s.rope_dtype = kind;
    for (SideSpec KvSpec::*side : {&KvSpec::k, &KvSpec::v}) {  // one codec for all segments
      changed = changed || (s.*side).codec != (cache.kv[0].*side).codec;
      s.*side = cache.kv[0].*side;
    }
  }
  std::vector<AttentionCase> forms;
  if (changed) forms.push_back(cache);
  if (!wide_q) return forms;
  cache.q_dtype = kind;
  if (cache.out_dtype == FOVEA_F32 && turn % 4 < 2) cache.out_dtype = kind;
  forms.push_back(cache);
  return forms;
}

void check_option(const AttentionCase& c, const std::function<void(fovea_attention_params&)>& without) {
  Rng rng = test_rng();
  check_attention(c, rng);
  AttentionCase whole = c;
  whole.poison = false;
  SCOPED_TRACE(whole.text() + "; " + seed_note());
  AttentionProblem problem(whole, rng);
  fovea_attention_params bare = problem.params;
  without(bare);
  const oracle::Attention64& want = problem.wanted();
  EXPECT_GT(distance(oracle::attention64(bare).out, want.out, want.out_bound), 100)
      << "the case does not show the option";
  check_attention(problem);
}

}  // namespace fovea::test
