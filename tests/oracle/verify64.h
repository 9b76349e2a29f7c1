// SPDX-License-Identifier: Apache-2.0
// Speculative sampling over a tree of drafts in fp64, one request, by the recursion of its definition.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace fovea::oracle {

struct DraftTree {
  std::vector<int64_t> parents;  // of each node; node 0 is the root
  std::vector<int64_t> tokens;
  std::vector<std::vector<double>> drawn_from;  // of each node: not normalised; empty where it was not drawn
};

struct Verified {
  std::vector<int64_t> tokens;  // accepted drafts, then the token after them; -1 where nothing can be drawn
  std::vector<int64_t> nodes;   // of the accepted drafts
  double margin = 1;            // how far the closest decision was from falling otherwise
};

// target(node, path) is the distribution of the token after `node`, whose path from the root has the tokens `path`;
// uniform(depth, stream) the random numbers.
Verified verify64(const DraftTree& tree,
                  const std::function<std::vector<double>(int64_t node, const std::vector<int64_t>& path)>& target,
                  const std::function<double(int64_t depth, uint32_t stream)>& uniform);

}  // namespace fovea::oracle
