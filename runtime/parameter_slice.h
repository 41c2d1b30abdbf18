// The slice of a larger parameter that one tensor chunk holds.
//
// [Note: tensor chunks] A model may be cut into G chunks (EngineOptions::tensor_chunks): heads of attention
// and columns of the MLP. Each chunk has its own parameters. A block computes each chunk with separate
// products: a column-parallel linear layer, the core, and a row-parallel linear layer, whose result is a
// partial sum (Shoeybi et al. 2019). Partial sums are fp32 and are added in one binary tree over the chunks.
// Gradients of the inputs that all chunks read are added in the same way. The number of chunks is part of the
// mathematics, like the micro-batch size: it determines the sums. The assignment of chunks to ranks is not.
//
// Ranks share whole heads. G groups cut a sum over features, and need not divide the heads. With 12 heads and
// G = 8 there are 4 chunks of 3 heads: 4 is the largest power of two of ranks that can share them. The inner
// sums of the products of each chunk are made in 2 groups, and the tree over all G continues from them
// (models/tensor_cut.h, ProductSumArgs). The result of a row-parallel layer is grouped along its inputs. The
// gradient of a column-parallel layer is grouped along its outputs in memory order, packed [q | k | v]
// included.
//
// Elements of a chunk use the random numbers of the whole parameter, so that the initial values do not depend
// on the cut.
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
  int chunk = -1;  // the chunk that reads it; -1: the whole block
  int chunks = 1;  // number of chunks of the larger parameter; 1: this is the whole
  CutDim dim = CutDim::kRows;
  /// For kRows: relative sizes of sections that are cut separately: {2, 1, 1} for packed [q | k | v] where
  /// two heads share one of k and v. 0: no section.
  std::array<int, 3> sections = {1, 0, 0};

  bool is_whole() const { return chunks == 1; }
  bool operator==(const ParameterSlice&) const = default;
};

/// The slice of chunk `chunk` of `chunks`; with one chunk, the whole.
ParameterSlice slice_of_chunk(int chunk, int chunks, CutDim dim, std::array<int, 3> sections = {1, 0, 0});

/// The sum of the sections' sizes, which divides the rows of a slice; 1 for kColumns.
int num_section_units(const ParameterSlice& slice);

/// ".chunk3", the end of the name of a chunk's parameter; empty for the whole.
std::string chunk_suffix(const ParameterSlice& slice);

/// Shape of the whole parameter, given the `shape` of its slice.
Shape whole_shape(const ParameterSlice& slice, const Shape& shape);
/// The name of the whole: "blocks.0.mlp.up.weight" for "blocks.0.mlp.up.weight.chunk3".
std::string whole_name(const ParameterSlice& slice, const std::string& name);

/// A run that is contiguous in both: elements [first, first + count) of the slice are elements
/// [first_of_whole, first_of_whole + count) of the whole.
struct SliceRun {
  std::int64_t first = 0, first_of_whole = 0, count = 0;
};

/// The run that contains element `at` of a slice of `shape`, starting at `at`.
SliceRun run_from(const ParameterSlice& slice, const Shape& shape, std::int64_t at);

}  // namespace trireme
