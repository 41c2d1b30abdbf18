// softmax_cross_entropy for rows with several targets, weights or label smoothing.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Writes each row's loss, without inv_num_targets, to row_losses [M]. With args.write_gradient, logits
/// become gradients. dtypes have been checked, and there is at least one row.
void soft_cross_entropy_rows(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args,
                             float* row_losses);

}  // namespace trireme::cuda
