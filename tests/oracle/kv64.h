// SPDX-License-Identifier: Apache-2.0
// Where a cache keeps its elements, and what they are worth: a second reading of kv.h, in plain loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::oracle {

int64_t index_at(const fovea_tensor& t, int64_t i);  // element i of an index tensor, row-major
int64_t element_offset(const fovea_tensor& t, int64_t i);

int64_t kv_len(const fovea_kv& kv, int64_t b);    // tokens of sequence b in this cache, over all shards
int64_t kv_start(const fovea_kv& kv, int64_t b);  // first token that may be seen
bool kv_holds(const fovea_kv& kv, int64_t t);     // does this shard hold token t?
int64_t kv_local(const fovea_kv& kv, int64_t t);  // its number among the tokens of this shard

// Page and offset of token t of sequence b. V has its own page table where one is given.
struct Slot {
  int64_t page;
  int64_t offset;
};
Slot kv_slot(const fovea_kv& kv, int64_t b, int64_t t, bool of_v);

std::byte* kv_address(const fovea_kv_stream& stream, Slot slot, int64_t head);
std::byte* scale_address(const fovea_kv_side& side, Slot slot, int64_t head, int64_t dim);
int32_t codec_dtype(int32_t codec);
const char* grid_of(int32_t codec);  // "q4": codes of rotated vectors in records; null for other codecs

// Decoded elements: stored * scale.
double side_at(const fovea_kv_side& side, Slot slot, int64_t head, int64_t dim);
double k_at(const fovea_kv& kv, Slot slot, int64_t head, int64_t dim);
double v_at(const fovea_kv& kv, Slot slot, int64_t head, int64_t dim);
// Whole vectors, of every codec. side: kv.k or kv.v; dims: without the rope part.
std::vector<double> vector_at(const fovea_kv& kv, const fovea_kv_side& side, Slot slot, int64_t head, int64_t dims);
std::vector<double> k_vector(const fovea_kv& kv, Slot slot, int64_t head);
std::vector<double> v_vector(const fovea_kv& kv, Slot slot, int64_t head);
// Encodes a vector of a grid by the rule in fp64.
void write_vector(const fovea_kv& kv, const fovea_kv_side& side, Slot slot, int64_t head, const double* x,
                  int64_t dims);
// Bytes of a row in a plane (0 or 1) of a grid, and where the row lies.
int64_t plane_bytes(int32_t codec, int plane, int64_t dims);
std::byte* plane_row(const fovea_kv& kv, const fovea_kv_side& side, Slot slot, int64_t head, int plane, int64_t dims);

}  // namespace fovea::oracle
