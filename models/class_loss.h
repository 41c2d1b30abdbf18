// The end of an image classifier: logits or loss.
#pragma once

#include "runtime/block.h"

namespace trireme {

/// Logits [B, classes] -> the cross-entropy over batch.targets, with `label_smoothing` in training. Without
/// targets, returns the logits.
Activations class_loss(Context& ctx, Tensor logits, const Batch& batch, float label_smoothing);

}  // namespace trireme
