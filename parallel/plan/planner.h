// Writes the plan of a step from the number of blocks, the mesh and the batch layout.
#pragma once

#include "parallel/layout/batch_layout.h"
#include "parallel/plan/pipeline_schedule.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// The inputs of the rules that write a plan.
struct PlanOptions {
  Layout layout;                          // but its cut and exchange, which are settled below
  bool gather_gradients = false;          // ZeRO-0: GatherGrad after the exchange of pieces; of several ranks
  int data_ranks_per_host = 1;            // 2 or more: exchanges over the data axis have two levels
  StageMap stages;                        // without bounds: equal numbers of units in every stage
  std::vector<TiedUnits> ties;            // between stages
  std::vector<TensorCalls> tensor_calls;  // by unit, of several tensor ranks; empty: none makes any
  std::vector<bool> statistics;           // by unit, whether it has running statistics; empty: none has
  bool evaluates_averages = false;        // of an evaluation: parameters are their averages meanwhile
  int only_rank = -1;  // of a training step: the others' plans stay empty; -1: all are written
};

/// Every rank runs the micro-batches in the order of the schedule, forward through the units of a chunk and
/// backward in reverse; in one stage, each micro-batch forward and then backward.
///
/// Messages: what a task needs from another stage is posted before the task before it runs, so that it can
/// arrive meanwhile. Reduction: a unit's gradient is reduced as soon as its last backward (or every one) has
/// run, so that the exchange overlaps the backward of the units below. Recompute: a chunk is cut into
/// segments of k units; before the backward of a segment its units run again from the kept input of the
/// first; not for the last one where the chunk's backward follows its forward at once. Sharded parameters: a
/// unit is resident from its Gather to its Release, from recompute to backward without a break; with
/// Layout::keep_gathered from its first use of the step to its last, over all micro-batches. Throws as
/// BatchLayout::check and pipeline_tasks do.
StepPlan plan_training_step(int num_units, const Mesh& mesh, const BatchLayout& batch,
                            const PlanOptions& options = {});

/// Forward only, over all samples of `batch`: the last micro-batch may be smaller. Every rank of a stage
/// makes equally many rounds of Gather and Release; one without a micro-batch of its own only takes part in
/// those. With evaluates_averages between two SwapAverages of every unit.
StepPlan plan_evaluation(int num_units, const Mesh& mesh, const BatchLayout& batch,
                         const PlanOptions& options = {});

}  // namespace trireme
