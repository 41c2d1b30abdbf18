// The rows of softmax_cross_entropy that have several targets, weights or smoothed labels.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Each row's loss, without inv_num_targets, to row_losses [M]; with args.write_gradient, logits become
/// gradients. dtypes have been checked, and there are rows.
void soft_cross_entropy_rows(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args,
                             float* row_losses);

}  // namespace trireme::cuda
