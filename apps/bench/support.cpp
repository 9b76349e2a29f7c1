// SPDX-License-Identifier: Apache-2.0
#include "bench/support.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "bench/case.h"

namespace fovea::bench {

namespace {

using Names = std::vector<std::string>;

std::string joined(const Names& names, const char* between = ", ") {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

std::string row(const Names& cells) {
  return "| " + joined(cells, " | ") + " |\n";
}

std::string head(const Names& cells) {
  return row(cells) + row(Names(cells.size(), "---"));
}

// Small, so that every dimension that is not asked about is fine.
Shape base() {
  Shape s;
  s.batch = 2;
  s.q_len = 3;
  s.kv_len = 64;
  s.hidden = s.ffn = s.n = s.k = 256;
  s.vocab = 1000;
  return s;
}

bool takes(const Context& context, int32_t op, const Shape& shape) {
  return static_cast<bool>(supports(context, op, shape));
}

// Option by option, all others at their defaults: choices by their words; switches, real numbers, and
// whole numbers that are off by default, by their names.
struct Asked {
  Names types, variants;
};

Asked ask(const Context& context, int32_t op) {
  Asked asked;
  for (const Option& option : options()) {
    if (!option.applies_to(op)) continue;
    const auto with = [&](const std::string& value) {
      Shape s = base();
      set_option(s, option, value);
      if (takes(context, op, s)) return true;
      if (std::string_view(option.key()) != "kv-scale") return false;
      s.codec = FOVEA_CODEC_FP8;  // has scales where f16 has none
      return takes(context, op, s);
    };
    if (const auto* choice = std::get_if<Choice>(&option.kind)) {
      Names words;
      for (const Word& word : choice->words) {
        if (with(word.name)) words.push_back(word.name);
      }
      const auto is = [&](std::span<const Word> list) { return choice->words.data() == list.data(); };
      const bool type =
          is(float_types()) || is(vector_types()) || is(weight_types()) || is(quantized_types()) || is(codecs());
      (type ? asked.types : asked.variants).push_back(std::string(option.key()) + ": " + joined(words));
    } else if (std::holds_alternative<Flag>(option.kind)) {
      if (with("true")) asked.variants.push_back(option.key());
    } else if (std::holds_alternative<Real>(option.kind)) {
      if (with("0.5")) asked.variants.push_back(option.key());
    } else if (std::holds_alternative<Whole>(option.kind) && option_text(Shape(), option) == "0") {
      if (with("16")) asked.variants.push_back(option.key());
    }
  }
  return asked;
}

std::string operations_table(const Context& context) {
  std::string text = head({"operation", "types", "variants"});
  for (const Word& op : operations()) {
    const Asked asked = ask(context, op.value);
    text += row({"`" + std::string(op.name) + "`", joined(asked.types, "; "), joined(asked.variants, "; ")});
  }
  return text;
}

// "16-576" for the numbers up to `last` that are taken; "8-64 by 8" where they have a step.
std::string ranges(int64_t last, const std::function<bool(int64_t)>& taken) {
  std::vector<int64_t> good;
  for (int64_t i = 1; i <= last; ++i) {
    if (taken(i)) good.push_back(i);
  }
  if (good.empty()) return "none";
  const int64_t step = good.size() > 1 ? good[1] - good[0] : 1;
  for (size_t i = 1; i < good.size(); ++i) {
    if (good[i] - good[i - 1] != step) return "irregular";
  }
  const std::string upper = good.back() + step > last ? " and more" : "";
  return std::to_string(good.front()) + "-" + std::to_string(good.back()) +
         (step > 1 ? " by " + std::to_string(step) : "") + upper;
}

std::string head_dims(const Context& context) {
  const auto dims = [&](int64_t Shape::*field, bool v_in_k) {
    return ranges(1024, [&](int64_t d) {
      Shape s = base();
      s.v_in_k = v_in_k;
      s.head_dim = 576;
      s.head_dim_v = 128;
      s.*field = d;
      return takes(context, FOVEA_OP_ATTENTION, s);
    });
  };
  return head({"head dims", "taken"}) + row({"Q and K", dims(&Shape::head_dim, false)}) +
         row({"V", dims(&Shape::head_dim_v, false)}) + row({"V inside K of 576", dims(&Shape::head_dim_v, true)});
}

// Rows Q, columns the KV codec, cells the scale kinds; every type of output must take what one takes.
std::string attention_types(const Context& context) {
  Names titles = {"Q \\ KV"};
  for (const Word& codec : codecs()) titles.push_back(codec.name);
  std::string text = head(titles);
  for (const Word& q : vector_types()) {
    Names cells = {q.name};
    for (const Word& codec : codecs()) {
      Names kinds;
      for (const Word& kind : scale_kinds()) {
        Names outs;
        for (const Word& out : vector_types()) {
          Shape s = base();
          s.q_type = q.value;
          s.codec = codec.value;
          s.scale_kind = kind.value;
          s.out_type = out.value;
          if (takes(context, FOVEA_OP_ATTENTION, s)) outs.push_back(out.name);
        }
        if (outs.empty()) continue;
        const bool all = outs.size() == vector_types().size();
        kinds.push_back(kind.name + (all ? "" : " (to " + joined(outs) + ")"));
      }
      cells.push_back(kinds.empty() ? "-" : joined(kinds));
    }
    text += row(cells);
  }
  return text;
}

// What no benchmark option changes: a change of the parameters of a paged, causal call.
struct Feature {
  const char* name;
  void (*apply)(AttentionParams& p, Kv& kv, const Shape& s);
};
const Feature kFeatures[] = {
    {"Q padded, [batch, tokens, heads, d]",
     [](AttentionParams& p, Kv&, const Shape& s) {
       p.q = tensor(nullptr, s.q_type, {s.batch, s.q_len, s.heads, s.head_dim});
       p.out = tensor(nullptr, s.q_type, {s.batch, s.q_len, s.heads, s.head_dim});
       p.cu_seqlens_q = {};
       p.q_lens = p.q_starts = tensor(nullptr, FOVEA_I32, {s.batch});
     }},
    {"Q and output with any strides",
     [](AttentionParams& p, Kv&, const Shape& s) {
       p.q.stride[0] *= 3;
       p.out.stride[1] = s.head_dim + 5;
       p.out.stride[0] = p.out.stride[1] * s.heads;
     }},
    {"K and V ragged (cu_seqlens_kv)",
     [](AttentionParams&, Kv& kv, const Shape& s) {
       kv.page_table = kv.kv_lens = {};
       kv.cu_seqlens_kv = tensor(nullptr, FOVEA_I32, {s.batch + 1});
       kv.page_size = static_cast<int32_t>(s.batch * s.kv_len);
       kv.pages = 1;
     }},
    {"pages by CSR table (page_indptr)",
     [](AttentionParams&, Kv& kv, const Shape& s) {
       kv.page_table = tensor(nullptr, FOVEA_I32, {8});
       kv.page_indptr = tensor(nullptr, FOVEA_I32, {s.batch + 1});
       kv.max_len = s.kv_len;
     }},
    {"page table of V of its own", [](AttentionParams&, Kv& kv, const Shape&) { kv.v_page_table = kv.page_table; }},
    {"pages of 1 token",
     [](AttentionParams&, Kv& kv, const Shape& s) {
       kv.page_size = 1;
       kv.pages = s.batch * s.kv_len;
       kv.page_table = tensor(nullptr, FOVEA_I32, {s.batch, s.kv_len});
     }},
    {"int64 index tensors",
     [](AttentionParams& p, Kv& kv, const Shape&) {
       p.cu_seqlens_q.dtype = kv.page_table.dtype = kv.kv_lens.dtype = FOVEA_I64;
     }},
    {"keys before `starts` hidden",
     [](AttentionParams&, Kv& kv, const Shape& s) { kv.starts = tensor(nullptr, FOVEA_I32, {s.batch}); }},
    {"last dims of K in a stream of their own (k_rope)",
     [](AttentionParams&, Kv& kv, const Shape&) {
       kv.d_rope = 64;
       kv.rope_dtype = FOVEA_BF16;
       kv.k_rope = {.base = nullptr, .page_stride = 2048, .token_stride = 128, .head_stride = 128};
     }},
    {"a shard of the tokens",
     [](AttentionParams&, Kv& kv, const Shape&) {
       kv.shard_world = 2;
       kv.shard_rank = 1;
     }},
    {"window to both sides",
     [](AttentionParams& p, Kv&, const Shape&) {
       p.mask = FOVEA_MASK_WINDOW;
       p.window_left = 5;
       p.window_right = 2;
     }},
    {"ALiBi slopes of each sequence",
     [](AttentionParams& p, Kv&, const Shape& s) {
       p.alibi_slopes = tensor(nullptr, FOVEA_F32, {s.batch, s.heads});
     }},
};

bool takes_feature(const Context& context, const Feature& feature) {
  const Shape s = base();
  Data data(Data::kSizesOnly, 0);
  AttentionParams p = attention_params(s, data);
  Kv kv = *p.kv;
  p.kv = &kv;
  feature.apply(p, kv, s);
  return static_cast<bool>(context.supports(p));
}

bool takes_segments(const Context& context) {
  Data data(Data::kSizesOnly, 0);
  AttentionParams p = attention_params(base(), data);
  const std::vector<Kv> segments(FOVEA_MAX_SEGMENTS, *p.kv);
  p.kv = segments.data();
  p.kv_segments = FOVEA_MAX_SEGMENTS;
  return static_cast<bool>(context.supports(p));
}

std::string attention_features(const Context& context) {
  const auto answer = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  std::string text = head({"attention with", "taken"});
  for (const Feature& f : kFeatures) text += row({f.name, answer(takes_feature(context, f))});
  return text + row({"three segments of K and V", answer(takes_segments(context))});
}

std::string matmul_types(const Context& context) {
  Names titles = {"x \\ w"};
  for (const Word& w : weight_types()) titles.push_back(w.name);
  std::string text = head(titles);
  for (const Word& x : float_types()) {
    Names cells = {x.name};
    for (const Word& w : weight_types()) {
      Shape s = base();
      s.type = x.value;
      s.w_type = w.value;
      cells.push_back(takes(context, FOVEA_OP_MATMUL, s) ? "yes" : "-");
    }
    text += row(cells);
  }
  return text;
}

}  // namespace

std::string support_tables(const Context& context) {
  return "### Operations\n\n" + operations_table(context) +
         "\n### Attention: types of Q and of the cache, and kinds of scales\n\n" + attention_types(context) +
         "\n### Attention: head dims\n\n" + head_dims(context) + "\n### Attention: layouts and forms\n\n" +
         attention_features(context) + "\n### Matmul: types\n\n" + matmul_types(context);
}

}  // namespace fovea::bench
