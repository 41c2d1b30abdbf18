// The arithmetic of a step, and what the machine can do: what MFU is made of.
//
// [Note: MFU] Model FLOPs utilization (Chowdhery et al. 2022, PaLM, appendix B): the floating-point
// operations that the mathematics of a step needs, over the time of the step, over the peak of all ranks.
// Operations are counted from the plan of one sample on one rank, without recompute, and multiplied by the
// global batch, so that the layout does not change them: those of matrix products, convolutions and attention
// (op_cost.h; half of them where attention is causal; its backward counts the scores that flash attention
// makes again, five products in place of four). The peak is measured, not of a data sheet: the best rate of a
// large product of the job's arithmetic, on all ranks at once.
//
// A step above the peak proves that the peak is too low: something else used the machine while it was
// measured, or the step's products are faster than a plain one (fp8, Winograd's convolutions). MFU is left
// out from that step on, with a warning: no figure above 1 is shown, and none that such a peak makes.
// Rejected: the fastest step as the new peak; the figure would say how even the steps are.
//
// `plan --cluster` has the same quotient of what it foresees (parallel/foresee/plan_price.h): the step's time
// is simulated, the peak is the one that the cluster's file promises, and operations are three times those of
// the forward, so that scores that are made again do not count. Its MFU is that of papers, and a little lower
// than the one that a run measures on the same machine at the same speed.
#pragma once

#include <optional>

#include "launcher/train/build.h"

namespace trireme {

/// Floating-point operations of a training step of the global batch. `job` is of any layout.
double step_operations(const PlannedJob& job);

/// FLOP/s of this rank in products of the precision's compute dtype, in some ten milliseconds; fp8's is that
/// of bf16. 0 where the device has no memory for it.
double measure_product_rate(Device device, int threads, const Precision& precision);

/// The peak that steps are compared with: [Note: MFU].
class PeakRate {
 public:
  /// FLOP/s of all ranks; 0: not known.
  explicit PeakRate(double flops_per_s) : flops_per_s_(flops_per_s) {}

  double flops_per_s() const { return flops_per_s_; }
  /// MFU of a step of `rate` FLOP/s, at most 1. None where the peak is not known. A step above it makes it
  /// so.
  std::optional<double> utilization(double rate);

 private:
  double flops_per_s_;
};

}  // namespace trireme
