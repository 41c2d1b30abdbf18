// The arithmetic of a step, and what the machine can do: what MFU is made of.
//
// [Note: MFU] Model FLOPs utilization (Chowdhery et al. 2022, PaLM, appendix B): the floating-point
// operations that the mathematics of a step needs, over the time of the step, over the peak of all ranks.
// Operations are counted from the plan of one sample on one rank, without recompute, and multiplied by the
// global batch, so that the layout does not change them: those of matrix products, convolutions and attention
// (op_cost.h; half of them where attention is causal; its backward counts the scores that flash attention
// makes again, five products in place of four). The peak is measured, not of a data sheet: the best rate of a
// large product of the job's arithmetic, on all ranks at once. Nobody multiplies faster than that product, so
// a step that reaches 1 does nothing else.
//
// `plan --cluster` has the same quotient of what it foresees (parallel/foresee/plan_price.h): the step's time
// is simulated, the peak is the one that the cluster's file promises, and operations are three times those of
// the forward, so that scores that are made again do not count. Its MFU is that of papers, and a little lower
// than the one that a run measures on the same machine at the same speed.
#pragma once

#include "launcher/train/build.h"

namespace trireme {

/// Floating-point operations of a training step of the global batch. `job` is of any layout.
double step_operations(const PlannedJob& job);

/// FLOP/s of this rank in products of the precision's compute dtype, in some ten milliseconds; fp8's is that
/// of bf16. 0 where the device has no memory for it.
double measure_product_rate(Device device, int threads, const Precision& precision);

}  // namespace trireme
