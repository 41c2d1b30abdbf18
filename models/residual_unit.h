// The units of residual networks (He et al. 2016), with a shortcut: two 3 x 3 convolutions, or a bottleneck
// of 1 x 1, 3 x 3 and 1 x 1.
#pragma once

#include <optional>

#include "models/conv_norm.h"

namespace trireme {

struct ResidualUnitConfig {
  bool bottleneck = true;
  std::int64_t channels = 64;  // input channels
  std::int64_t width = 64;     // channels of the 3 x 3 convolution; a bottleneck outputs 4 times this
  std::int64_t stride = 1;     // of the first 3 x 3 convolution and of the shortcut

  std::int64_t outputs() const { return bottleneck ? 4 * width : width; }
};

class ResidualUnit final : public ConvNormBlock {
 public:
  ResidualUnit(std::string name, const ResidualUnitConfig& config);
  /// [B, H, W, C] -> [B, ceil(H / stride), ceil(W / stride), outputs]. The shortcut is the input itself if
  /// its shape fits, else a 1 x 1 convolution with a norm.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  std::vector<ConvNorm> convs_;
  std::optional<ConvNorm> shortcut_;
};

}  // namespace trireme
