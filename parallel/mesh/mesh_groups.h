// The communicators of a rank: of all ranks, and along each axis of the mesh.
#pragma once

#include <array>
#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/mesh/mesh.h"

namespace trireme {

class RecordingCommunicator;

struct MeshGroups {
  Mesh mesh;
  std::shared_ptr<Communicator> world;
  // The data axis on two levels, where its exchanges are hierarchical; else null. See [Note: two levels].
  std::shared_ptr<Communicator> in_host;     // the data ranks of this rank's host
  std::shared_ptr<Communicator> over_hosts;  // those at this rank's place of every host

  /// Ranks of the group are positions on the axis. `world` itself where the axis is all of the mesh. Null for
  /// an axis of one rank in a larger mesh; never so for the data axis, over which state is sharded.
  const std::shared_ptr<Communicator>& along(Axis axis) const {
    return along_[static_cast<std::size_t>(axis)];
  }
  bool spans(Axis axis) const { return mesh.size(axis) > 1; }
  Coord coord() const { return mesh.coord(world->rank()); }
  /// Every communicator once, `world` first.
  std::vector<Communicator*> all() const;
  /// Over all groups: bytes sent, and milliseconds as in Communicator::exposed_ms.
  std::int64_t sent_bytes() const;
  double exposed_ms() const;

 private:
  friend MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh,
                               int data_ranks_per_host);
  std::array<std::shared_ptr<Communicator>, kAxes.size()> along_;
};

/// Collective over `world`. With `data_ranks_per_host` of 2 or more the data axis gets two levels, of runs of
/// so many neighbours. Throws Error(kInvalidInput) unless `world` has mesh.num_ranks() ranks.
MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh, int data_ranks_per_host = 1);

/// Announces the splits that split_mesh will make.
void expect_mesh_splits(RecordingCommunicator& world, const Mesh& mesh, int data_ranks_per_host = 1);

}  // namespace trireme
