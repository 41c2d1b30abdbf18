// The first layers of a residual network, before its units.
#pragma once

#include "models/conv_norm.h"
#include "models/resnet.h"

namespace trireme {

class ResNetStem final : public ConvNormBlock {
 public:
  explicit ResNetStem(const ResNetConfig& config);
  /// batch.inputs [B, H, W, 3] -> [B, H', W', width]; H' is about H / 4 with the ImageNet stem, else H.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  ResNetConfig::Stem stem_;
  ConvNorm conv_;
};

}  // namespace trireme
