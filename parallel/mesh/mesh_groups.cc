#include "parallel/mesh/mesh_groups.h"

#include "parallel/comm/recording.h"
#include "runtime/base/error.h"

namespace trireme {

std::int64_t MeshGroups::sent_bytes() const {
  if (!pipeline) return world->traffic().sent_bytes;
  return world->traffic().sent_bytes + data->traffic().sent_bytes + pipeline->traffic().sent_bytes;
}

double MeshGroups::exposed_ms() const {
  if (!pipeline) return world->exposed_ms();
  return world->exposed_ms() + data->exposed_ms() + pipeline->exposed_ms();
}

MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh) {
  TRIREME_CHECK(world->size() == mesh.num_ranks(),
                "a mesh of {} stages x {} data ranks wants {} ranks, not {}", mesh.pipeline, mesh.data,
                mesh.num_ranks(), world->size());
  MeshGroups groups{.mesh = mesh, .world = world, .data = world, .pipeline = nullptr};
  if (mesh.pipeline == 1) return groups;
  const MeshPlace place = groups.place();
  groups.data = world->split(place.stage);
  groups.pipeline = world->split(place.data);
  return groups;
}

void expect_mesh_splits(RecordingCommunicator& world, const Mesh& mesh) {
  if (mesh.pipeline == 1) return;
  std::vector<int> stages, places;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    stages.push_back(mesh.place(rank).stage);
    places.push_back(mesh.place(rank).data);
  }
  world.expect_split(stages);
  world.expect_split(places);
}

Mesh mesh_of(int num_ranks, int stages) {
  TRIREME_CHECK(stages >= 1, "parallel.pipeline = {} must be 1 or more", stages);
  TRIREME_CHECK(num_ranks % stages == 0,
                "parallel.pipeline = {} stages cannot share {} rank(s) equally: start a multiple of {} ranks",
                stages, num_ranks, stages);
  return {.data = num_ranks / stages, .pipeline = stages};
}

}  // namespace trireme
