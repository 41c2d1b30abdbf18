// Writes the plan of a step from the number of blocks, the mesh and the batch layout.
#pragma once

#include "parallel/plan.h"

namespace trireme {

struct PlanOptions {
  bool shard_parameters = false;         // ZeRO-3: Gather and Release around every use
  bool reduce_each_micro_batch = false;  // ZeRO-2 and 3: ReduceGrad after every backward, not only the last
  int recompute_every = 0;  // k: keep only the input of each segment of k units; 0: keep everything
  int prefetch_depth = 1;   // ZeRO-3: gather this many runs of units ahead
};

/// Every rank runs its micro-batches in order, forward through all units and backward in reverse.
///
/// Reduction: a unit's gradient is reduced as soon as its last backward (or every one) has run, so that the
/// exchange overlaps the backward of the units below. Recompute: before the backward of a segment its units
/// run again from the kept input of the first; not for the last segment, whose backward follows its forward
/// at once. Sharded parameters: a unit is resident from its Gather to its Release, from recompute to backward
/// without a break. Throws as BatchLayout::check does.
StepPlan plan_training_step(int num_units, const Mesh& mesh, const BatchLayout& batch,
                            const PlanOptions& options = {});

/// Forward only, over all samples of `batch`: the last micro-batch may be smaller. Every rank makes equally
/// many rounds of Gather and Release; one without a micro-batch of its own only takes part in those.
StepPlan plan_evaluation(int num_units, const Mesh& mesh, const BatchLayout& batch,
                         const PlanOptions& options = {});

}  // namespace trireme
