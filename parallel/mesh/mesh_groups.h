// The communicators of a rank: one for all ranks, and one along each axis of the mesh.
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
  // The two levels of the data axis, for hierarchical exchanges; else null. See [Note: two levels].
  std::shared_ptr<Communicator> in_host;     // the data ranks of this rank's host
  std::shared_ptr<Communicator> over_hosts;  // the data ranks at this rank's position on every host

  /// The group along an axis; its ranks are the positions on the axis. `world` itself if the axis spans the
  /// whole mesh. Null for an axis of one rank in a larger mesh, except the data axis, over which state is
  /// sharded: it always has one.
  const std::shared_ptr<Communicator>& along(Axis axis) const {
    return along_[static_cast<std::size_t>(axis)];
  }
  bool spans(Axis axis) const { return mesh.size(axis) > 1; }
  Coord coord() const { return mesh.coord(world->rank()); }
  /// Every communicator once, `world` first.
  std::vector<Communicator*> all() const;
  /// Totals over all groups: bytes sent, and milliseconds as in Communicator::exposed_ms.
  std::int64_t sent_bytes() const;
  double exposed_ms() const;

 private:
  friend MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh,
                               int data_ranks_per_host);
  std::array<std::shared_ptr<Communicator>, kAxes.size()> along_;
};

/// Collective over `world`. With `data_ranks_per_host` of 2 or more the data axis gets two levels, with that
/// number of neighbours on the lower level. Throws Error(kInvalidInput) unless `world` has mesh.num_ranks()
/// ranks.
MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh, int data_ranks_per_host = 1);

/// Announces the splits of split_mesh().
void expect_mesh_splits(RecordingCommunicator& world, const Mesh& mesh, int data_ranks_per_host = 1);

}  // namespace trireme
