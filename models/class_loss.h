// The end of networks that tell classes of images apart.
#pragma once

#include "runtime/block.h"

namespace trireme {

/// Logits [B, classes] -> the cross-entropy over batch.targets, with `label_smoothing` in training; the
/// logits themselves where there are no targets.
Activations class_loss(Context& ctx, Tensor logits, const Batch& batch, float label_smoothing);

}  // namespace trireme
