// Seconds of one optimizer step on a cluster, in closed form over the work of a layer.
#pragma once

#include "parallel/cluster/cluster.h"
#include "parallel/cluster/training_run.h"

namespace trireme {

/// Seconds, which add up to the step.
struct StepTime {
  double micro_batches_s = 0;  // forward and backward of the slowest stage, including exchanges inside them
  double bubble_s = 0;         // time that this stage waits for others
  double exchange_s = 0;       // exposed exchange of gradients, not hidden by backward
  double update_s = 0;
  double host_s = 0;  // once per step

  double total_s() const { return micro_batches_s + bubble_s + exchange_s + update_s + host_s; }
};

/// [Note: closed form of a step] Stages run 1F1B, interleaved if `chunks` > 1. The slowest stage, which has
/// the head, runs m micro-batches, and waits (p - 1) / chunks micro-batches of the others (Narayanan et al.
/// 2021). ZeRO 2 and 3 gather a layer's parameters and scatter its gradients for each micro-batch,
/// overlapping its computation. Otherwise gradients are summed once per step.
///
/// Throws Error(kInvalidInput) for an unknown device or precision, and for a missing link.
StepTime predict_step(const Cluster& cluster, const TrainingRun& run);

}  // namespace trireme
