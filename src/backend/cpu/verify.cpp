// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/verify.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/sample_values.h"
#include "shared/philox.h"

namespace fovea::cpu {

namespace {

constexpr float kNone = -__builtin_inff();

Status check_node(const VerifyArgs& a, int64_t root, int64_t node) {
  const int64_t vocab = a.spec.target.vocab, token = index_at(a.draft_tokens, node);
  if (token < 0 || token >= vocab) {
    return bad_value("draft_tokens", node, std::to_string(token), "must be in [0, " + std::to_string(vocab) + ")");
  }
  if (a.parents.given()) {
    const int64_t parent = index_at(a.parents, node);
    if (parent < 0 || parent >= node - root) {
      return bad_value("parents", node, std::to_string(parent),
                       "must be in [0, " + std::to_string(node - root) + "), a node before it");
    }
  }
  if (!a.draft_rows.given()) return {};
  const int64_t drawn_from = index_at(a.draft_rows, node), rows = a.draft_probs.shape[0];
  if (drawn_from >= -1 && drawn_from < rows) return {};
  return bad_value("draft_rows", node, std::to_string(drawn_from),
                   "must be -1 or in [0, " + std::to_string(rows) + ")");
}

// Nodes of the path from the root to the end that is farthest from it, without the root.
int64_t depth_of(const VerifyArgs& a, int64_t root, int64_t end) {
  if (!a.parents.given()) return end - root - 1;
  int64_t deepest = 0;
  for (int64_t node = root + 1; node < end; ++node) {
    int64_t depth = 0;
    for (int64_t at = node - root; at > 0; at = index_at(a.parents, root + at)) ++depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

Status check_request(const VerifyArgs& a, int64_t r) {
  const int64_t root = index_at(a.cu_nodes, r), end = index_at(a.cu_nodes, r + 1);
  FOVEA_TRY(in_struct("target", check_row_values(a.target, r)));
  for (int64_t node = root; node < end; ++node) FOVEA_TRY(in_struct("target", check_mask_row(a.target, node)));
  for (int64_t node = root + 1; node < end; ++node) FOVEA_TRY(check_node(a, root, node));
  if (root == end) return {};
  const int64_t depth = depth_of(a, root, end), width = a.tokens.shape[1];
  if (depth < width) return {};
  return invalid_value(
      "tokens.shape[1]", width,
      "must be above " + std::to_string(depth) + ", the drafts on a path of request " + std::to_string(r));
}

Status check_cu_nodes(const VerifyArgs& a) {
  const int64_t requests = a.spec.requests, nodes = a.spec.target.rows;
  for (int64_t r = 0; r <= requests; ++r) {
    const int64_t at = index_at(a.cu_nodes, r), before = r > 0 ? index_at(a.cu_nodes, r - 1) : 0;
    if (r == 0 && at != 0) return bad_value("cu_nodes", r, std::to_string(at), "must be 0");
    if (at < before) {
      return bad_value("cu_nodes", r, std::to_string(at),
                       "must be at least " + std::to_string(before) + ", the one before");
    }
    if (r == requests && at != nodes) {
      return bad_value("cu_nodes", r, std::to_string(at),
                       "must be " + std::to_string(nodes) + " (target.logits.shape[0])");
    }
  }
  return {};
}

// How a walk ended that has no token to give.
enum class Fault { none, empty_row, bad_draft };

class Walk {
 public:
  Walk(const Isa& isa, const VerifyArgs& a, int64_t r, const SampleWorkspace& to)
      : isa_(isa), a_(a), r_(r), to_(to), root_(index_at(a.cu_nodes, r)), end_(index_at(a.cu_nodes, r + 1)) {
    path_ = a.tokens;
    path_.data = row_or_null(a.tokens, r);
    path_.stride[0] = a.tokens.stride[1];
  }

  // Writes what the request gets, and answers where that lacks a token.
  Fault operator()() {
    const int64_t width = a_.tokens.shape[1];
    for (int64_t i = 0; i < width; ++i) {
      put_index(a_.tokens, r_, i, -1);
      if (a_.nodes.given()) put_index(a_.nodes, r_, i, -1);
    }
    put_index(a_.accepted, r_, 0);
    if (root_ == end_) return Fault::none;
    const bool greedy = temperature_of(a_.target, r_) == 0;
    while (greedy ? match() : step()) {
    }
    return fault_;
  }

 private:
  // One node of the path; true where a draft after it was accepted.
  bool match() {
    const int64_t best = best_token();
    for (int64_t child = next_child(root_ + node_); child < end_; child = next_child(child)) {
      if (index_at(a_.draft_tokens, child) == best) return accept(child);
    }
    return finish(best);
  }

  bool step() {
    if (!keep()) return finish(-1);
    int64_t sibling = 0;
    for (int64_t child = next_child(root_ + node_); child < end_; child = next_child(child), ++sibling) {
      const double u = uniform_of(a_.target, r_, depth_, verify_stream(sibling));
      if (holds(child, u)) return accept(child);
      if (fault_ != Fault::none) return false;
    }
    return finish(sample_draw(isa_, kept_, to_, uniform_of(a_.target, r_, depth_, kVerifyStream)));
  }

  float load() { return load_row(isa_, a_.target, root_ + node_, r_, path_, depth_, to_); }

  int64_t best_token() {
    const SampleSpec& s = a_.spec.target;
    if (!s.edits()) return sample_best(isa_, s.logits, row_or_null(a_.target.logits, root_ + node_), s.vocab);
    load();
    return sample_best(isa_, Dtype::f32, reinterpret_cast<const char*>(to_.logits), s.vocab);
  }

  // What the target may draw after this node; false where that is nothing.
  bool keep() {
    const float max = load();
    loaded_ = -1;
    if (max == kNone) return false;
    kept_ = sample_keep(isa_, a_.spec.target.vocab, rule_of(a_.target, r_), max, to_);
    return true;
  }

  // Accepts with probability min(1, p / q), q being 1 where the draft was not drawn; else takes the draft's part from
  // what is left to draw.
  bool holds(int64_t child, double u) {
    const int64_t token = index_at(a_.draft_tokens, child), entry = entry_of(token);
    const double p = entry < 0 ? 0 : static_cast<double>(to_.weights[entry]);
    const int64_t drawn_from = draft_row(child);
    if (drawn_from < 0) {
      if (u * kept_.total < p) return true;
      if (p > 0) verify_remove(isa_, kept_, to_, entry);
      return false;
    }
    if (drawn_from != loaded_) draft_total_ = verify_load(isa_, a_.draft_probs, drawn_from, to_);
    loaded_ = drawn_from;
    if (draft_total_ < 0) {
      fault_ = Fault::bad_draft;
      return false;
    }
    const double q = static_cast<double>(to_.logits[token]) / draft_total_;
    if (u * q * kept_.total < p) return true;
    verify_subtract(isa_, kept_, to_, draft_total_);
    if (kept_.total > 0) return false;
    if (p > 0) return true;  // nothing would be left, by rounding: p was q
    keep();
    return false;
  }

  // The first row after row `after` that holds a child of the node, end_ if there is none.
  int64_t next_child(int64_t after) const {
    if (!a_.parents.given()) return after == root_ + node_ ? after + 1 : end_;
    for (int64_t child = after + 1; child < end_; ++child) {
      if (index_at(a_.parents, child) == node_) return child;
    }
    return end_;
  }

  int64_t entry_of(int64_t token) const {
    if (kept_.all) return token;
    const i32_t* first = to_.ids;
    const i32_t* last = first + kept_.n;
    const i32_t* at = std::lower_bound(first, last, static_cast<i32_t>(token));
    return at != last && *at == token ? at - first : -1;
  }

  int64_t draft_row(int64_t child) const {
    if (!a_.draft_probs.given()) return -1;
    return a_.draft_rows.given() ? index_at(a_.draft_rows, child) : child;
  }

  bool accept(int64_t child) {
    node_ = child - root_;
    put_index(a_.tokens, r_, depth_, index_at(a_.draft_tokens, child));
    if (a_.nodes.given()) put_index(a_.nodes, r_, depth_, node_);
    put_index(a_.accepted, r_, ++depth_);
    return true;
  }

  bool finish(int64_t token) {
    put_index(a_.tokens, r_, depth_, token);
    if (token < 0) fault_ = Fault::empty_row;
    return false;
  }

  const Isa& isa_;
  const VerifyArgs& a_;
  const int64_t r_;
  const SampleWorkspace to_;
  const int64_t root_, end_;
  View path_;          // tokens of the accepted drafts
  int64_t node_ = 0;   // of the request
  int64_t depth_ = 0;  // accepted drafts
  SampleKept kept_;
  int64_t loaded_ = -1;  // row of draft_probs that lies in to_.logits
  double draft_total_ = 0;
  Fault fault_ = Fault::none;
};

}  // namespace

Status verify(BackendContext& context, const VerifyPlan&, const VerifyArgs& args, const fovea_exec& exec) {
  const CpuContext& c = cpu(context);
  const int64_t requests = args.spec.requests;
  FOVEA_TRY(check_cu_nodes(args));
  FOVEA_TRY(check_all(c, requests, args.spec.target.penalties != 0, [&](int64_t r) { return check_request(args, r); }));
  std::atomic<int64_t> first{2 * requests};  // 2 * request, + 1 where the draft is at fault
  const int64_t tasks = sample_tasks(requests);
  const SampleSpec& spec = args.spec.target;
  c.parallel_for(tasks, [&](int64_t task) {
    for (int64_t r = task; r < requests; r += tasks) {
      const SampleWorkspace to = workspace_of(exec, task, spec);
      const Fault fault = Walk(c.isa, args, r, to)();
      const int64_t code = 2 * r + (fault == Fault::bad_draft);
      for (int64_t seen = first; fault != Fault::none && code < seen && !first.compare_exchange_weak(seen, code);) {
      }
    }
  });
  if (first == 2 * requests) return {};
  const std::string request = "request " + std::to_string(first / 2);
  if (first % 2) {
    return report(exec, invalid_value("draft_probs of " + request, "no distribution",
                                      "entries must not be negative and have a sum; its last token is -1"));
  }
  return report(exec, invalid_value("target.logits of " + request, no_number(spec), "its last token is -1"));
}

}  // namespace fovea::cpu
