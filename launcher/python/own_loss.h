// A loss from a function, in place of the loss of a model's last block.
#pragma once

#include <functional>
#include <memory>

#include "runtime/block.h"

namespace trireme {

/// Computes the loss of a micro-batch from logits [B, ..., C] fp32 and the batch's targets, both in host
/// memory. Writes the gradient of the loss with respect to the logits, of their shape, and returns the sum of
/// the loss over the targets. Called from the threads of all ranks.
using LossFunction =
    std::function<float(const Tensor& logits, const Tensor& targets, const Tensor& gradient)>;

/// The last block of a model without tensor ranks and adapters, with this loss.
std::unique_ptr<Block> with_own_loss(std::unique_ptr<Block> last, LossFunction loss);

}  // namespace trireme
