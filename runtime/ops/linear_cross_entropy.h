// The head of a token model: logits and cross-entropy, without keeping all logits where that is possible.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

// [Note: logits in parts] The logits of a large vocabulary are the largest tensor of a step. With P parts,
// the rows of x are cut into P ranges, ceil(M / P) rows each. Forward computes the logits of one range, their
// loss and their gradient, and from it at once the range's gradient of x and its addend to the gradient of
// the weight, so that one range of logits is alive at a time. Backward only hands the gradients over. The
// weight's gradient, in fp32, is kept from forward to backward. The number of parts decides the order of its
// sum, and so the last bits. Rejected: computing the logits again in backward, which needs no kept gradient,
// but half as many products again.
//
// [Note: rows of logits] Where Backend::logits_alignment is above 1, rows of logits are apart by a multiple
// of it. So a vocabulary of any size, such as GPT-2's 50257, is as fast as the next multiple. Elements
// between the rows are never read, and results have the bits of the same products.

struct LinearCrossEntropyOptions {
  ParamRef bias;           // [V], or undefined
  std::int64_t parts = 1;  // of the rows, see [Note: logits in parts]
};

/// The loss of logits x W^T + b, as softmax_cross_entropy(): x [..., K], weight [V, K], targets int32, one a
/// row of x (negative: ignored) -> []. Throws Error(kUnsupported) for several parts if the policy computes
/// the loss in another dtype than the product.
Tensor linear_cross_entropy(Context& ctx, const Tensor& x, ParamRef weight, const Tensor& targets,
                            float inv_num_targets, const LinearCrossEntropyOptions& options = {});

}  // namespace trireme::ops
