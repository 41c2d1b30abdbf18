#include "parallel/mesh/mesh.h"

#include <gtest/gtest.h>

#include "parallel/comm/local.h"
#include "parallel/mesh/mesh_groups.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

const Mesh kMesh{{Axis::kPipeline, 2}, {Axis::kData, 3}};

TEST(Mesh, TheRanksOfAStageAreNeighbours) {
  EXPECT_EQ(kMesh.num_ranks(), 6);
  EXPECT_EQ(kMesh.coord(4), (Coord{{Axis::kPipeline, 1}, {Axis::kData, 1}}));
  EXPECT_EQ(kMesh.groups(Axis::kData), (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(kMesh.groups(Axis::kPipeline), (std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(Mesh, CoordinatesAndRanksAreOneToOne) {
  for (int rank = 0; rank < kMesh.num_ranks(); ++rank) {
    EXPECT_EQ(kMesh.rank(kMesh.coord(rank)), rank);
    for (const Axis axis : {Axis::kPipeline, Axis::kData}) {
      for (int position = 0; position < kMesh.size(axis); ++position) {
        const int other = kMesh.rank_along(axis, rank, position);
        EXPECT_EQ(kMesh.coord(other)[axis], position);
        EXPECT_EQ(kMesh.rank_along(axis, other, kMesh.coord(rank)[axis]), rank);
      }
    }
  }
}

TEST(Mesh, AnAxisThatIsNotGivenHasOneRank) {
  EXPECT_EQ(Mesh().num_ranks(), 1);
  EXPECT_EQ(Mesh({{Axis::kData, 4}}).size(Axis::kPipeline), 1);
}

TEST(Mesh, RanksThatTheStagesCannotShareAreRefused) {
  EXPECT_EQ(mesh_of(6, 2, 1), (Mesh{{Axis::kPipeline, 2}, {Axis::kData, 3}}));
  EXPECT_THROW(mesh_of(6, 4, 1), Error);
  EXPECT_THROW(mesh_of(6, 0, 1), Error);
}

TEST(MeshGroups, ACommunicatorRanksItsGroupByPosition) {
  run_local_ranks(kMesh.num_ranks(), [](std::shared_ptr<Communicator> world) {
    const MeshGroups groups = split_mesh(world, kMesh);
    for (const Axis axis : {Axis::kPipeline, Axis::kData}) {
      EXPECT_EQ(groups.along(axis)->size(), kMesh.size(axis)) << name(axis);
      EXPECT_EQ(groups.along(axis)->rank(), groups.coord()[axis]) << name(axis);
    }
    EXPECT_EQ(groups.all().size(), 3u);
  });
}

TEST(MeshGroups, AnAxisThatIsAllOfTheMeshIsTheWorld) {
  run_local_ranks(2, [](std::shared_ptr<Communicator> world) {
    const MeshGroups groups = split_mesh(world, {{Axis::kData, 2}});
    EXPECT_EQ(groups.along(Axis::kData), world);
    EXPECT_EQ(groups.along(Axis::kPipeline), nullptr);
    EXPECT_EQ(groups.all().size(), 1u);
  });
}

}  // namespace
}  // namespace trireme
