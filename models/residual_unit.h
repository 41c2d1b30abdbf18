// The units of residual networks (He et al. 2016): two convolutions of 3 x 3 pixels, or three that narrow,
// look and widen, beside a shortcut.
#pragma once

#include <optional>

#include "models/conv_norm.h"

namespace trireme {

struct ResidualUnitConfig {
  bool bottleneck = true;
  std::int64_t channels = 64;  // of the input
  std::int64_t width = 64;     // of the convolution of 3 x 3; a bottleneck returns 4 times as many
  std::int64_t stride = 1;     // of the first convolution of 3 x 3, and of the shortcut

  std::int64_t outputs() const { return bottleneck ? 4 * width : width; }
};

class ResidualUnit final : public ConvNormBlock {
 public:
  ResidualUnit(std::string name, const ResidualUnitConfig& config);
  /// [B, H, W, C] -> [B, ceil(H / stride), ceil(W / stride), outputs]. The shortcut is the input itself where
  /// that fits, else a convolution of one pixel with a norm.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  std::vector<ConvNorm> convs_;
  std::optional<ConvNorm> shortcut_;
};

}  // namespace trireme
