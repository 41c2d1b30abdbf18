// Seconds of one optimizer step on a cluster, in closed form over the work of a layer.
#pragma once

#include "parallel/cluster/cluster.h"
#include "parallel/cluster/training_run.h"

namespace trireme {

/// Seconds; they add up to the step.
struct StepTime {
  double micro_batches_s = 0;  // forward and backward of the slowest stage, exchanges inside of them included
  double bubble_s = 0;         // that stage waits for others
  double exchange_s = 0;       // of gradients, as far as backward does not hide it
  double update_s = 0;
  double host_s = 0;  // once a step

  double total_s() const { return micro_batches_s + bubble_s + exchange_s + update_s + host_s; }
};

/// [Note: closed form of a step] Stages run 1F1B, of `chunks` > 1 interleaved: the slowest stage, which has
/// the head, takes m micro-batches, and waits (p - 1) / chunks micro-batches of the others (Narayanan et al.
/// 2021). ZeRO 2 and 3 gather parameters and scatter gradients of a layer for each micro-batch, beside its
/// computation; else gradients are summed once a step.
///
/// Throws Error(kInvalidInput) for an unknown device or precision, and for a missing link.
StepTime predict_step(const Cluster& cluster, const TrainingRun& run);

}  // namespace trireme
