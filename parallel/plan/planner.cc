#include "parallel/plan/planner.h"

#include <algorithm>

#include "parallel/plan/stage_plan.h"
#include "parallel/plan/step_end.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// `options` with the stages filled in.
PlanOptions with_stages(int num_units, const Mesh& mesh, PlanOptions options) {
  TRIREME_CHECK(num_units >= 1, "a model needs at least one block");
  if (options.stages.bounds.empty()) {
    options.stages = StageMap::even({.num_units = num_units, .pipeline = mesh.size(Axis::kPipeline)});
  }
  TRIREME_CHECK(
      options.stages.num_units() == num_units && options.stages.pipeline == mesh.size(Axis::kPipeline),
      "the stage map has {} units and {} stages, the model has {} units and the mesh {} stages",
      options.stages.num_units(), options.stages.pipeline, num_units, mesh.size(Axis::kPipeline));
  options.gather_gradients = options.gather_gradients && mesh.size(Axis::kData) > 1;
  const int data = mesh.size(Axis::kData), per_host = options.data_ranks_per_host;
  TRIREME_CHECK(per_host == 1 || (per_host > 1 && per_host < data && data % per_host == 0),
                "{} data ranks cannot be split into several hosts of {} each", data, per_host);
  return options;
}

StepPlan empty_plan(const Mesh& mesh, const PlanOptions& options) {
  return {.mesh = mesh,
          .num_units = options.stages.num_units(),
          .sharded_parameters = sharded_by(options.layout.zero).parameters,
          .keeps_gathered = options.layout.keeps_parameters(),
          .evaluates_averages = options.evaluates_averages,
          .data_ranks_per_host = options.data_ranks_per_host,
          .owed = owed_exchanges(mesh, options),
          .stages = options.stages,
          .ties = options.ties,
          .tensor_calls = options.tensor_calls,
          .ranks = std::vector<RankPlan>(static_cast<std::size_t>(mesh.num_ranks()))};
}

std::vector<std::vector<PipelineTask>> training_tasks(const PlanOptions& options, int micro_batches) {
  const StageMap& stages = options.stages;
  // With one stage, the order of 1F1B needs the least memory, and all schedules are equally fast.
  const auto schedule =
      stages.pipeline == 1 ? PipelineSchedule::kOneForwardOneBackward : options.layout.schedule;
  return pipeline_tasks(schedule, stages.pipeline, stages.num_chunks() / stages.pipeline, micro_batches);
}

// Number of sends that may be in flight on a link, so that stages do not block each other. 1F1B and GPipe
// need one. If interleaved rounds have more micro-batches than stages, the excess is sent ahead of the
// receiver.
int send_window(const PlanOptions& options, int micro_batches) {
  const int p = options.stages.pipeline;
  if (p == 1 || options.layout.schedule != PipelineSchedule::kInterleaved) return 1;
  const int rounds = std::max(1, micro_batches / p);
  return 1 + std::max(0, (micro_batches + rounds - 1) / rounds - p);
}

// Runs rounds of p micro-batches (p stages) through all chunks, so that each stage waits only for the first
// micro-batch of a round.
std::vector<PipelineTask> evaluation_tasks(const StageMap& stages, int stage, int micro_batches) {
  std::vector<PipelineTask> tasks;
  for (int first = 0; first < micro_batches; first += stages.pipeline) {
    for (int chunk = stage; chunk < stages.num_chunks(); chunk += stages.pipeline) {
      for (int m = first; m < std::min(first + stages.pipeline, micro_batches); ++m) {
        tasks.push_back({PipelineTask::Kind::kForward, chunk, m});
      }
    }
  }
  return tasks;
}

// Derives the plan of one rank from the plan of its stage. Replaces peer stages by ranks. Drops actions of
// micro-batches that the rank does not have; exchanges over the data axis have no micro-batch and are kept.
RankPlan plan_of_rank(const RankPlan& stage_plan, const Mesh& mesh, const BatchLayout& batch, int rank) {
  RankPlan plan = stage_plan;
  const int data_rank = mesh.coord(rank)[Axis::kData];
  std::erase_if(plan.actions, [&](const Action& action) {
    return action.micro_batch >= 0 &&
           batch.global_micro_batch(data_rank, action.micro_batch) >= batch.num_micro_batches();
  });
  plan.micro_batches = static_cast<int>(batch.count_of(data_rank));
  for (Action& action : plan.actions) {
    if (action.peer >= 0) action.peer = mesh.rank_along(Axis::kPipeline, rank, action.peer);
  }
  return plan;
}

}  // namespace

StepPlan plan_training_step(int num_units, const Mesh& mesh, const BatchLayout& batch,
                            const PlanOptions& given) {
  batch.check();
  TRIREME_CHECK(batch.data_ranks == mesh.size(Axis::kData),
                "the batch is laid out for {} data ranks, the mesh has {}", batch.data_ranks,
                mesh.size(Axis::kData));
  TRIREME_CHECK(given.layout.recompute_every >= 0 && given.layout.prefetch_depth >= 0,
                "recompute_every {} and prefetch_depth {} must not be negative", given.layout.recompute_every,
                given.layout.prefetch_depth);
  TRIREME_CHECK(given.layout.recompute_every < std::max(num_units, 2),
                "Layout::recompute_every = {} recomputes nothing: a segment of {} blocks covers all {} "
                "blocks of the model, and the last segment is kept; use {} or less, or 0 to keep everything",
                given.layout.recompute_every, given.layout.recompute_every, num_units, num_units - 1);
  const PlanOptions options = with_stages(num_units, mesh, given);
  const int micro_batches = static_cast<int>(batch.per_rank());
  const auto tasks = training_tasks(options, micro_batches);
  StepPlan plan = empty_plan(mesh, options);
  const auto is_wanted = [&](int rank) { return options.only_rank < 0 || options.only_rank == rank; };
  for (int stage = 0; stage < mesh.size(Axis::kPipeline); ++stage) {
    if (options.only_rank >= 0 && mesh.coord(options.only_rank)[Axis::kPipeline] != stage) continue;
    RankPlan of_stage = plan_stage(
        {.stage = stage, .tasks = tasks[static_cast<std::size_t>(stage)], .micro_batches = micro_batches},
        options);
    of_stage.send_window = send_window(options, micro_batches);
    const std::vector<Action> end = end_of_step(stage, mesh, options);
    of_stage.actions.insert(of_stage.actions.end(), end.begin(), end.end());
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      if (mesh.coord(rank)[Axis::kPipeline] != stage || !is_wanted(rank)) continue;
      plan.ranks[static_cast<std::size_t>(rank)] = plan_of_rank(of_stage, mesh, batch, rank);
    }
  }
  return plan;
}

StepPlan plan_evaluation(int num_units, const Mesh& mesh, const BatchLayout& batch,
                         const PlanOptions& given) {
  const PlanOptions options = with_stages(num_units, mesh, given);
  const int rounds = static_cast<int>(batch.per_rank());
  StepPlan plan = empty_plan(mesh, options);
  for (int r = 0; r < mesh.num_ranks(); ++r) {
    const Coord coord = mesh.coord(r);
    const int stage = coord[Axis::kPipeline];
    RankPlan& rank = plan.ranks[static_cast<std::size_t>(r)];
    rank = plan_of_rank(plan_stage({.stage = stage,
                                    .tasks = evaluation_tasks(options.stages, stage, rounds),
                                    .micro_batches = rounds,
                                    .training = false},
                                   options),
                        mesh, batch, r);
    RankPlan swap;
    if (options.evaluates_averages) {
      swap = plan_of_rank({.actions = swap_of_averages(stage, mesh, options)}, mesh, batch, r);
    }
    rank.actions.insert(rank.actions.begin(), swap.actions.begin(), swap.actions.end());
    rank.actions.push_back({.kind = ActionKind::kReduceLoss});
    rank.actions.insert(rank.actions.end(), swap.actions.begin(), swap.actions.end());
  }
  return plan;
}

}  // namespace trireme
