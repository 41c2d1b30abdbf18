// Writes the plan of a step from the number of blocks, the mesh and the batch layout.
#pragma once

#include "parallel/layout/batch_layout.h"
#include "parallel/plan/pipeline_schedule.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// Inputs of the rules that write a plan.
struct PlanOptions {
  Layout layout;                  // except cut and exchange, which `stages` and `data_ranks_per_host` replace
  bool gather_gradients = false;  // ZeRO-0: GatherGrad after the exchange of pieces, with several ranks
  int data_ranks_per_host = 1;    // 2 or more: exchanges over the data axis have two levels
  StageMap stages;                // without bounds: equal numbers of units in every stage
  std::vector<TiedUnits> ties;    // between stages
  std::vector<TensorCalls> tensor_calls;  // by unit, with several tensor ranks; empty: none
  std::vector<bool> statistics;           // by unit, whether it has running statistics; empty: none has
  bool evaluates_averages = false;        // for an evaluation: averages replace the parameters meanwhile
  int only_rank = -1;  // for a training step: only this rank's plan is written; -1: all are
};

/// Every rank runs the micro-batches in the order of the schedule, forward through the units of a chunk and
/// backward in reverse. With one stage, each micro-batch runs forward and then backward.
///
/// Messages: the receives of a task are posted before the previous task runs, so that messages can arrive
/// meanwhile. Reduction: a unit's gradient is reduced as soon as its last backward (or each backward) has
/// run, so that the exchange overlaps the backward of the units below. Recompute: a chunk is cut into
/// segments of k units. Before the backward of a segment its units run again from the kept input of the
/// first; the last segment does not, if the chunk's backward directly follows its forward. Sharded
/// parameters: a unit is resident from its Gather to its Release, and stays so between recompute and
/// backward. With Layout::keep_gathered it is resident from its first use in the step to its last, over all
/// micro-batches. Throws as BatchLayout::check and pipeline_tasks do.
StepPlan plan_training_step(int num_units, const Mesh& mesh, const BatchLayout& batch,
                            const PlanOptions& options = {});

/// Forward only, over all samples of `batch`; the last micro-batch may be smaller. Every rank of a stage
/// makes the same number of rounds of Gather and Release, and a rank without a micro-batch takes part in
/// these only. With evaluates_averages the plan is enclosed by two SwapAverages of every unit.
StepPlan plan_evaluation(int num_units, const Mesh& mesh, const BatchLayout& batch,
                         const PlanOptions& options = {});

}  // namespace trireme
