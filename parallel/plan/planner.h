// Writes the plan of a step from the number of blocks, the mesh and the batch layout.
#pragma once

#include "parallel/layout/batch_layout.h"
#include "parallel/plan/pipeline_schedule.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// The inputs of the rules that write a plan.
struct PlanOptions {
  bool shard_state = false;              // ZeRO-1 to 3: a data rank updates its pieces alone
  bool shard_parameters = false;         // ZeRO-3: Gather and Release around every use
  bool gather_gradients = false;         // ZeRO-0: GatherGrad after the exchange of pieces; of several ranks
  int data_ranks_per_host = 1;           // 2 or more: exchanges over the data axis have two levels
  bool keep_gathered = false;            // ZeRO-3: one Gather before all uses of the step, one Release after
  bool reduce_each_micro_batch = false;  // ZeRO-2 and 3: ReduceGrad after every backward, not only the last
  int recompute_every = 0;  // k: keep only the input of each segment of k units; 0: keep everything
  int prefetch_depth = 1;   // ZeRO-3: gather this many runs of units ahead
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;  // without effect in one stage
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
/// keep_gathered from its first use of the step to its last, over all micro-batches. Throws as
/// BatchLayout::check and pipeline_tasks do.
StepPlan plan_training_step(int num_units, const Mesh& mesh, const BatchLayout& batch,
                            const PlanOptions& options = {});

/// Forward only, over all samples of `batch`: the last micro-batch may be smaller. Every rank of a stage
/// makes equally many rounds of Gather and Release; one without a micro-batch of its own only takes part in
/// those. With evaluates_averages between two SwapAverages of every unit.
StepPlan plan_evaluation(int num_units, const Mesh& mesh, const BatchLayout& batch,
                         const PlanOptions& options = {});

}  // namespace trireme
