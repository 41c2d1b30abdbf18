// The slice of a larger parameter that one tensor chunk holds.
//
// [Note: tensor chunks] A model may be cut into G chunks (EngineOptions::tensor_chunks): heads of attention
// and columns of the MLP. Each chunk is a set of parameters of its own, and what a block computes of a chunk
// is a product of its own: a column-parallel linear layer, the core, and a row-parallel linear layer, whose
// result is a partial sum (Shoeybi et al. 2019). Partial sums are fp32 and are added in one binary tree over
// the chunks, and so are the gradients of what the chunks read. The number of chunks is mathematics, like the
// micro-batch: it decides which sums are made. Who computes a chunk does not.
//
// Ranks share whole heads, but G groups cut a sum over features, and need not divide the heads. Of 12 heads
// and G = 8 there are 4 chunks of 3 heads, as many as a power of two of ranks can share, and in each the
// inner sums of its products are made in 2 groups, which the tree over all G continues (models/tensor_cut.h,
// ProductSumArgs). The result of a row-parallel layer is cut along its inputs, the gradient of a
// column-parallel one along its outputs as they lie, packed [q | k | v] included.
//
// Elements of a chunk keep the random numbers of the whole parameter, so that models start alike whatever
// they are cut into.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/shape.h"

namespace trireme {

enum class CutDim : std::uint8_t {
  kRows,     // [N / G, K] of [N, K], [N / G] of [N]
  kColumns,  // [N, K / G] of [N, K]
};

struct ParameterSlice {
  int chunk = -1;  // that reads it; -1: all of the block
  int chunks = 1;  // that the larger parameter is cut into; 1: this is the whole
  CutDim dim = CutDim::kRows;
  /// kRows: relative sizes of parts that are each cut: {2, 1, 1} for packed [q | k | v] where two heads share
  /// one of k and v. 0: no such part.
  std::array<int, 3> sections = {1, 0, 0};

  bool is_whole() const { return chunks == 1; }
  bool operator==(const ParameterSlice&) const = default;
};

/// Of chunk `chunk` of `chunks`; of one, the whole.
ParameterSlice slice_of_chunk(int chunk, int chunks, CutDim dim, std::array<int, 3> sections = {1, 0, 0});

/// The sum of the sections' sizes, which divides the rows of a slice; 1 for kColumns.
int num_section_units(const ParameterSlice& slice);

/// ".chunk3", the end of the name of a chunk's parameter; empty for the whole.
std::string chunk_suffix(const ParameterSlice& slice);

/// Of the whole parameter that a slice of `shape` is of.
Shape whole_shape(const ParameterSlice& slice, const Shape& shape);
/// "blocks.0.mlp.up.weight" of "blocks.0.mlp.up.weight.chunk3".
std::string whole_name(const ParameterSlice& slice, const std::string& name);

/// Neighbours in both the slice and the whole: elements [first, first + count) of the slice are those of the
/// whole from `first_of_whole` on.
struct SliceRun {
  std::int64_t first = 0, first_of_whole = 0, count = 0;
};

/// The run that element `at` of a slice of `shape` lies in, from `at` on.
SliceRun run_from(const ParameterSlice& slice, const Shape& shape, std::int64_t at);

}  // namespace trireme
