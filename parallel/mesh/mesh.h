// The grid of ranks: how many there are on each axis, and which rank has which coordinates.
#pragma once

#include <vector>

#include "parallel/mesh/axis.h"

namespace trireme {

/// Mesh{{Axis::kData, 2}, {Axis::kPipeline, 4}}: ranks on each axis; 1 where none is given.
class Mesh : public PerAxis {
 public:
  Mesh(Given given = {}) : PerAxis(1, given) {}

  int size(Axis axis) const { return (*this)[axis]; }
  int num_ranks() const;
  Coord coord(int rank) const;
  int rank(const Coord& coord) const;
  /// The rank at `position` of `axis` that has the other coordinates of `rank`.
  int rank_along(Axis axis, int rank, int position) const;
  /// The ranks that differ on `axis` alone, ascending, of every such group.
  std::vector<std::vector<int>> groups(Axis axis) const;
};

/// `num_ranks` ranks in `stages` stages of data ranks, each of them `tensor` ranks. Throws
/// Error(kInvalidInput), naming pipeline.stages or tensor, where they cannot be.
Mesh mesh_of(int num_ranks, int stages, int tensor);

}  // namespace trireme
