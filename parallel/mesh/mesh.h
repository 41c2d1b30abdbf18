// The grid of ranks: the size of each axis, and the mapping between ranks and coordinates.
#pragma once

#include <vector>

#include "parallel/mesh/axis.h"

namespace trireme {

/// Mesh{{Axis::kData, 2}, {Axis::kPipeline, 4}}: ranks on each axis; unspecified axes have 1.
class Mesh : public PerAxis {
 public:
  Mesh(Given given = {}) : PerAxis(1, given) {}

  int size(Axis axis) const { return (*this)[axis]; }
  int num_ranks() const;
  Coord coord(int rank) const;
  int rank(const Coord& coord) const;
  /// The rank at `position` on `axis` with the other coordinates of `rank`.
  int rank_along(Axis axis, int rank, int position) const;
  /// All groups of ranks that differ only on `axis`, each ascending.
  std::vector<std::vector<int>> groups(Axis axis) const;
};

/// A mesh of `num_ranks` ranks with `stages` pipeline stages and `tensor` tensor ranks; the rest is the data
/// axis. Throws Error(kInvalidInput) naming pipeline.stages or tensor if they do not fit.
Mesh mesh_of(int num_ranks, int stages, int tensor);

}  // namespace trireme
