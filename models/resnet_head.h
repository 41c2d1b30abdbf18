// Global average pool, classifier and loss.
#pragma once

#include "models/resnet.h"
#include "runtime/block.h"

namespace trireme {

class ResNetHead final : public Block {
 public:
  ResNetHead(const ResNetConfig& config, std::int64_t channels);
  /// [B, H, W, C] -> the loss over batch.targets, or without targets the logits [B, classes].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float label_smoothing_;
  ParamRef weight_, bias_;
};

}  // namespace trireme
