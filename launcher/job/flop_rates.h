// FLOPs of a step and peak rate of the machine, from which MFU is computed.
//
// [Note: MFU] Model FLOPs utilization (Chowdhery et al. 2022, PaLM, appendix B): the floating-point
// operations that the mathematics of a step needs, divided by the time of the step and the peak rate of all
// ranks. Operations are counted from the plan of one sample on one rank, without recompute, and multiplied by
// the global batch, so they do not depend on the layout. Matrix products, convolutions and attention count
// (op_cost.h). Causal attention counts half; its backward includes the scores that flash attention
// recomputes, five products instead of four. The peak is measured rather than taken from a data sheet: the
// best rate of a large product in the job's arithmetic, on all ranks at once.
//
// A step above the peak proves that the measured peak is too low: the machine was busy during the
// measurement, or the step's products are faster than a plain one (fp8, Winograd convolutions). From that
// step on MFU is left out, with a warning, because a figure based on such a peak would be wrong. Rejected:
// taking the fastest step as the new peak; the figure would then only show how uniform the steps are.
//
// `plan --cluster` reports the same ratio for its prediction (parallel/foresee/plan_price.h). The step's time
// is simulated, the peak is the one in the cluster file, and operations are three times the forward's, so
// recomputed scores do not count. This is the MFU of published papers. It is slightly lower than the MFU that
// a run measures on the same machine at the same speed.
#pragma once

#include <optional>

#include "launcher/job/build.h"

namespace trireme {

/// Floating-point operations of a training step of the global batch. The layout of `job` has no effect.
double step_operations(const PlannedJob& job);

/// FLOP/s of this rank for products in the compute dtype, measured in about ten milliseconds. For fp8 the
/// rate of bf16. 0 if the device lacks the memory.
double measure_product_rate(Device device, int threads, const Precision& precision);

/// The peak rate for [Note: MFU].
class PeakRate {
 public:
  /// FLOP/s of all ranks; 0: unknown.
  explicit PeakRate(double flops_per_s) : flops_per_s_(flops_per_s) {}

  double flops_per_s() const { return flops_per_s_; }
  /// MFU of a step with `rate` FLOP/s, at most 1. Null if the peak is unknown. A rate above the peak makes
  /// the peak unknown.
  std::optional<double> utilization(double rate);

 private:
  double flops_per_s_;
};

}  // namespace trireme
