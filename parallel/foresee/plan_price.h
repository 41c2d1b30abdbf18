// The predicted time of a job's step on a cluster: its plan, simulated with the times of its ranks' calls.
#pragma once

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/predict.h"
#include "parallel/plan/timeline.h"

namespace trireme {

struct PlanPrice {
  double step_ms = 0;
  double compute_ms = 0;    // of the rank that computes most, without waits
  double bubble_share = 0;  // of the step, without exchanges
  double exposed_ms = 0;    // time of exchanges that is not hidden: the step minus the step without exchanges
  double forward_operations = 0;  // per sample, all ranks together
  double mfu = 0;                 // predicted: 3 x forward_operations of all samples / (peak x time)
  Timeline timeline;              // empty unless KeepTimeline::kYes
};

/// Peak FLOP/s of the units that compute most of a job's products. Throws Error(kInvalidInput) if the device
/// has no peak for the job's precision.
double peak_of(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device);

enum class KeepTimeline { kNo, kYes };

/// Throws Error(kInvalidInput) as StepPrice does, and if `plan` blocks.
PlanPrice price_plan(const PlannedJob& job, const StepPlan& plan, const Cluster& cluster,
                     const ClusterDevice& device, KeepTimeline keep = KeepTimeline::kNo);

/// The same without a plan of all ranks: see [Note: folded plans]. Differs only if data ranks differ: in
/// partial sums, if their micro-batches are no power of two.
PlanPrice price_layout(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device);

}  // namespace trireme
