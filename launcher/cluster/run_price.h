// The time of a training run of any framework: the run as a job of ours, in the simulator of plans.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/cluster/training_run.h"
#include "parallel/foresee/step_record.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// [Note: runs as jobs] A run becomes a GPT job with its shape and layout, equal stages, and one exchange of
/// gradients per step. Its calls are recorded once, on the meta device. For a cluster, each call takes the
/// time of a plan's call, with three differences that belong to the framework:
///   - An action takes the longer of its calls' time and the host's time to launch its kernels, as a smooth
///     maximum. A plan adds a launch to every call.
///   - Unfused attention computes and writes the scores of all T x T pairs.
///   - The host takes `micro_batch_ms` for each micro-batch and `step_ms` for the step.
/// The time is linear in the micro-batches once the pipeline is full, so at most two short steps are
/// simulated.
class RunPrice {
 public:
  /// Throws Error(kInvalidInput) for a run that cannot be a job, as Engine does.
  RunPrice(const TrainingRun& run, const ClusterFramework& framework);
  RunPrice(RunPrice&&) = default;  // a copy would point into the original

  /// Throws Error(kInvalidInput) for an unknown device, a precision without a peak, and a missing link.
  double step_ms(const Cluster& cluster) const;

 private:
  /// A plan of one rank per stage. Consecutive actions of a rank that wait for no other rank are one action,
  /// whose `peer` is its index in `parts`.
  struct ShortStep {
    StepPlan plan;
    std::vector<std::vector<std::pair<const ActionCalls*, int>>> parts;
    double micro_batches = 0;
  };
  ShortStep short_step(const PlannedJob& job) const;
  const ActionCalls* calls_of(int stage, const Action& action) const;

  TrainingRun run_;
  double micro_batches_;
  StepRecord record_;
  std::vector<ShortStep> steps_;
};

}  // namespace trireme
