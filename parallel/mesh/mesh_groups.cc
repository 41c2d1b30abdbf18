#include "parallel/mesh/mesh_groups.h"

#include <algorithm>

#include "parallel/comm/recording.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Those that get a communicator of their own, in the order in which they are split off.
std::vector<Axis> axes_to_split(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis axis : kAxes) {
    const bool wanted = mesh.size(axis) > 1 || axis == Axis::kData;
    if (wanted && mesh.size(axis) < mesh.num_ranks()) axes.push_back(axis);
  }
  return axes;
}

// Ranks of one group along `axis` have one color: the first of them.
int color(const Mesh& mesh, Axis axis, int rank) {
  return mesh.rank_along(axis, rank, 0);
}

}  // namespace

std::vector<Communicator*> MeshGroups::all() const {
  std::vector<Communicator*> all{world.get()};
  for (const auto& comm : along_) {
    if (comm && std::ranges::find(all, comm.get()) == all.end()) all.push_back(comm.get());
  }
  return all;
}

std::int64_t MeshGroups::sent_bytes() const {
  std::int64_t bytes = 0;
  for (const Communicator* comm : all()) bytes += comm->traffic().sent_bytes;
  return bytes;
}

double MeshGroups::exposed_ms() const {
  double ms = 0;
  for (const Communicator* comm : all()) ms += comm->exposed_ms();
  return ms;
}

MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh) {
  TRIREME_CHECK(world->size() == mesh.num_ranks(),
                "a mesh of {} stages x {} data ranks x {} tensor ranks needs {} ranks, not {}",
                mesh.size(Axis::kPipeline), mesh.size(Axis::kData), mesh.size(Axis::kTensor),
                mesh.num_ranks(), world->size());
  MeshGroups groups;
  groups.mesh = mesh;
  groups.world = world;
  for (const Axis axis : kAxes) {
    if (mesh.size(axis) == mesh.num_ranks()) groups.along_[static_cast<std::size_t>(axis)] = world;
  }
  for (const Axis axis : axes_to_split(mesh)) {
    groups.along_[static_cast<std::size_t>(axis)] = world->split(color(mesh, axis, world->rank()));
  }
  return groups;
}

void expect_mesh_splits(RecordingCommunicator& world, const Mesh& mesh) {
  for (const Axis axis : axes_to_split(mesh)) {
    std::vector<int> colors;
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) colors.push_back(color(mesh, axis, rank));
    world.expect_split(colors);
  }
}

}  // namespace trireme
