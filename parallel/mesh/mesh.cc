#include "parallel/mesh/mesh.h"

#include <array>

#include "runtime/base/error.h"

namespace trireme {

std::string_view name(Axis axis) {
  constexpr std::array<std::string_view, kAxes.size()> kNames = {"pipeline", "data", "tensor"};
  return kNames[static_cast<std::size_t>(axis)];
}

int Mesh::num_ranks() const {
  int ranks = 1;
  for (const Axis axis : kAxes) ranks *= size(axis);
  return ranks;
}

Coord Mesh::coord(int rank) const {
  Coord coord;
  int below = num_ranks();  // ranks that share the coordinates computed so far
  for (const Axis axis : kAxes) {
    below /= size(axis);
    coord[axis] = rank / below % size(axis);
  }
  return coord;
}

int Mesh::rank(const Coord& coord) const {
  int rank = 0;
  for (const Axis axis : kAxes) rank = rank * size(axis) + coord[axis];
  return rank;
}

int Mesh::rank_along(Axis axis, int rank, int position) const {
  Coord moved = coord(rank);
  moved[axis] = position;
  return this->rank(moved);
}

std::vector<std::vector<int>> Mesh::groups(Axis axis) const {
  std::vector<std::vector<int>> groups;
  for (int first = 0; first < num_ranks(); ++first) {
    if (coord(first)[axis] != 0) continue;
    std::vector<int>& group = groups.emplace_back();
    for (int position = 0; position < size(axis); ++position) {
      group.push_back(rank_along(axis, first, position));
    }
  }
  return groups;
}

Mesh mesh_of(int num_ranks, int stages, int tensor) {
  TRIREME_CHECK(stages >= 1, "Layout::pipeline = {} must be 1 or more", stages);
  TRIREME_CHECK(tensor >= 1, "Layout::tensor = {} must be 1 or more", tensor);
  TRIREME_CHECK(num_ranks % tensor == 0,
                "Layout::tensor = {} ranks that share every block cannot be taken from {} rank(s): start "
                "a multiple of {} ranks",
                tensor, num_ranks, tensor * stages);
  TRIREME_CHECK(num_ranks / tensor % stages == 0,
                "Layout::pipeline = {} stages cannot share {} rank(s) equally: start a "
                "multiple of {} ranks",
                stages, num_ranks, stages * tensor);
  return {{Axis::kPipeline, stages}, {Axis::kData, num_ranks / stages / tensor}, {Axis::kTensor, tensor}};
}

}  // namespace trireme
