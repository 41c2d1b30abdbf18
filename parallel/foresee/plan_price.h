// The time of a job's step on a cluster, before anything runs: its plan, simulated with the times of what its
// ranks call.
#pragma once

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/predict.h"
#include "parallel/foresee/timeline.h"

namespace trireme {

struct PlanPrice {
  double step_ms = 0;
  double compute_ms = 0;          // of the rank that computes most, waits left out
  double bubble_share = 0;        // of the step, without any exchange
  double exposed_ms = 0;          // of exchanges: the step less what it is without them
  double forward_operations = 0;  // of a sample, all ranks together
  double mfu = 0;                 // three times these, of all samples, over what the peaks promise: foreseen,
                                  // beside the one that a run measures
  Timeline timeline;              // empty unless it was asked for
};

/// FLOP/s of the units that multiply most of a job's products. Throws Error(kInvalidInput) where the device
/// has none for its precision.
double peak_of(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device);

enum class KeepTimeline { kNo, kYes };

/// Throws Error(kInvalidInput) as StepPrice does, and where `plan` blocks.
PlanPrice price_plan(const PlannedJob& job, const StepPlan& plan, const Cluster& cluster,
                     const ClusterDevice& device, KeepTimeline keep = KeepTimeline::kNo);

/// The same without a plan of all ranks: see [Note: folded plans]. Equal but for what differs between data
/// ranks: partial sums, where their micro-batches are no power of two.
PlanPrice price_layout(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device);

}  // namespace trireme
