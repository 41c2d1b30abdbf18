#include "models/resnet_head.h"

#include <utility>

#include "models/class_loss.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/pool.h"

namespace trireme {

ResNetHead::ResNetHead(const ResNetConfig& config, std::int64_t channels)
    : Block("fc"), label_smoothing_(config.label_smoothing) {
  weight_ =
      declare({.name = "weight", .shape = {config.classes, channels}, .init = Initializer::normal(0.01f)});
  bias_ = declare({.name = "bias", .shape = {config.classes}, .init = Initializer::zeros(), .decay = false});
}

Activations ResNetHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor logits = ops::linear(ctx, ops::global_pool(ctx, input.at(0)), weight_, {.bias = bias_});
  return class_loss(ctx, std::move(logits), batch, label_smoothing_);
}

}  // namespace trireme
