#include "parallel/mesh/mesh_groups.h"

#include <algorithm>

#include "parallel/comm/recording.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// The axes with a separate communicator, in the order of their splits.
std::vector<Axis> axes_to_split(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis axis : kAxes) {
    const bool wanted = mesh.size(axis) > 1 || axis == Axis::kData;
    if (wanted && mesh.size(axis) < mesh.num_ranks()) axes.push_back(axis);
  }
  return axes;
}

// The color of a group along `axis` is its first rank.
int color(const Mesh& mesh, Axis axis, int rank) {
  return mesh.rank_along(axis, rank, 0);
}

// Colors of the ranks on one host, and of the ranks at the same position of all hosts.
int color_in_host(const Mesh& mesh, int rank, int data_ranks_per_host) {
  const int data = mesh.coord(rank)[Axis::kData];
  return mesh.rank_along(Axis::kData, rank, data / data_ranks_per_host * data_ranks_per_host);
}

int color_over_hosts(const Mesh& mesh, int rank, int data_ranks_per_host) {
  return mesh.rank_along(Axis::kData, rank, mesh.coord(rank)[Axis::kData] % data_ranks_per_host);
}

}  // namespace

std::vector<Communicator*> MeshGroups::all() const {
  std::vector<Communicator*> all{world.get()};
  for (const auto& comm : along_) {
    if (comm && std::ranges::find(all, comm.get()) == all.end()) all.push_back(comm.get());
  }
  if (in_host) all.insert(all.end(), {in_host.get(), over_hosts.get()});
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

MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh, int data_ranks_per_host) {
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
  if (data_ranks_per_host > 1) {
    groups.in_host = world->split(color_in_host(mesh, world->rank(), data_ranks_per_host));
    groups.over_hosts = world->split(color_over_hosts(mesh, world->rank(), data_ranks_per_host));
  }
  return groups;
}

void expect_mesh_splits(RecordingCommunicator& world, const Mesh& mesh, int data_ranks_per_host) {
  for (const Axis axis : axes_to_split(mesh)) {
    std::vector<int> colors;
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) colors.push_back(color(mesh, axis, rank));
    world.expect_split(colors);
  }
  if (data_ranks_per_host == 1) return;
  for (const auto& color_of : {color_in_host, color_over_hosts}) {
    std::vector<int> colors;
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      colors.push_back(color_of(mesh, rank, data_ranks_per_host));
    }
    world.expect_split(colors);
  }
}

}  // namespace trireme
