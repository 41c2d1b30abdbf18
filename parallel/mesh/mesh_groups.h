// The communicators of a rank: of all ranks, of its stage (the data axis), and of its place in all stages
// (the pipeline axis).
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/mesh/mesh.h"

namespace trireme {

class RecordingCommunicator;

struct MeshGroups {
  Mesh mesh;
  std::shared_ptr<Communicator> world;
  std::shared_ptr<Communicator> data;      // ranked by place in the stage; `world` itself without a pipeline
  std::shared_ptr<Communicator> pipeline;  // ranked by stage; null without a pipeline

  MeshPlace place() const { return mesh.place(world->rank()); }
  /// Over all groups: bytes sent, and milliseconds as in Communicator::exposed_ms.
  std::int64_t sent_bytes() const;
  double exposed_ms() const;
};

/// Collective over `world`. Throws Error(kInvalidInput) unless it has mesh.num_ranks() ranks.
MeshGroups split_mesh(std::shared_ptr<Communicator> world, const Mesh& mesh);

/// Announces what split_mesh will ask for.
void expect_mesh_splits(RecordingCommunicator& world, const Mesh& mesh);

/// `num_ranks` ranks in `stages` stages. Throws Error(kInvalidInput), naming parallel.pipeline, where they
/// cannot be.
Mesh mesh_of(int num_ranks, int stages);

}  // namespace trireme
