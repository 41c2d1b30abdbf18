#include "models/class_loss.h"

#include <utility>

#include "runtime/ops/cross_entropy.h"

namespace trireme {

Activations class_loss(Context& ctx, Tensor logits, const Batch& batch, float label_smoothing) {
  if (!batch.targets.defined()) return {std::move(logits)};
  return {ops::softmax_cross_entropy(
      ctx, std::move(logits), batch.targets, batch.inv_num_targets,
      {.label_smoothing = ctx.training ? label_smoothing : 0.0f, .target_weights = batch.target_weights})};
}

}  // namespace trireme
