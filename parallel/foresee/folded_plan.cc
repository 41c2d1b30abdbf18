#include "parallel/foresee/folded_plan.h"

#include <algorithm>
#include <utility>

namespace trireme {

StepPlan fold_plan(const PlannedJob& job, int tensor_places) {
  PlannedJob own = job;
  own.options.planning = Planning::kOwnRank;
  const int stages = job.options.layout.pipeline, tensor = std::min(job.options.layout.tensor, tensor_places);
  const Mesh all = mesh_of(job.num_ranks, stages, job.options.layout.tensor);
  const Mesh few = mesh_of(stages * tensor, stages, tensor);
  const auto moved = [](const Mesh& from, const Mesh& to, int rank) {
    const Coord coord = from.coord(rank);
    return to.rank({{Axis::kPipeline, coord[Axis::kPipeline]}, {Axis::kTensor, coord[Axis::kTensor]}});
  };
  StepPlan folded;
  for (int rank = 0; rank < few.num_ranks(); ++rank) {
    const int original = moved(few, all, rank);
    StepPlan plan = engine_on_meta(own, original)->plan();
    RankPlan mine = std::move(plan.ranks[static_cast<std::size_t>(original)]);
    for (Action& action : mine.actions) {
      if (action.peer >= 0) action.peer = moved(all, few, action.peer);
    }
    if (rank == 0) {
      folded = std::move(plan);
      folded.ranks.assign(static_cast<std::size_t>(few.num_ranks()), {});
    }
    folded.ranks[static_cast<std::size_t>(rank)] = std::move(mine);
  }
  folded.mesh = few;
  folded.data_ranks_per_host = 1;
  return folded;
}

std::vector<double> folded_weights(const PlannedJob& job, const StepPlan& folded) {
  const Mesh all = mesh_of(job.num_ranks, job.options.layout.pipeline, job.options.layout.tensor);
  const int data = all.size(Axis::kData), tensor = all.size(Axis::kTensor);
  std::vector<double> weights;
  for (int rank = 0; rank < folded.mesh.num_ranks(); ++rank) {
    const bool is_first = folded.mesh.coord(rank)[Axis::kTensor] == 0;
    weights.push_back(data * (is_first ? 1.0 : tensor - 1.0));
  }
  return weights;
}

}  // namespace trireme
