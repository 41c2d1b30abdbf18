#include "models/resnet_stem.h"

#include "runtime/ops/pool.h"

namespace trireme {

ResNetStem::ResNetStem(const ResNetConfig& config) : ConvNormBlock("stem", ""), stem_(config.stem) {
  const bool large = stem_ == ResNetConfig::Stem::kImageNet;
  conv_ = declare_conv_norm({.conv = "conv1",
                             .norm = "bn1",
                             .channels = 3,
                             .outputs = config.width,
                             .kernel = large ? 7 : 3,
                             .geometry = {.stride = large ? 2 : 1, .padding = large ? 3 : 1}});
}

Activations ResNetStem::forward(Context& ctx, const Activations&, const Batch& batch) const {
  const Tensor x = conv_(ctx, batch.inputs, Rectify::kYes);
  if (stem_ == ResNetConfig::Stem::kCifar) return {x};
  return {ops::max_pool(ctx, x, {.height = 3, .width = 3, .stride = 2, .padding = 1})};
}

}  // namespace trireme
