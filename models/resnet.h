// Residual networks (He et al. 2016) as blocks: stem, one block per residual unit, head with loss. Parameters
// and running statistics have torchvision's names and shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/block.h"

namespace trireme {

struct ResNetConfig {
  /// The layers before the first unit.
  enum class Stem : std::uint8_t {
    kImageNet,  // a 7 x 7 convolution and a max pool, each with stride 2
    kCifar,     // a 3 x 3 convolution
  };
  Stem stem = Stem::kImageNet;
  bool bottleneck = true;
  // Number of units in each stage. Each stage after the first halves the image and doubles the width.
  std::vector<std::int64_t> units = {3, 4, 6, 3};
  std::int64_t width = 64;  // of the first stage
  std::int64_t classes = 1000;
  float label_smoothing = 0.0f;  // in training
};

/// The first four are for 224 x 224 pixels, with the stride on the 3 x 3 convolution, as in torchvision. The
/// last two are for CIFAR's 32 x 32, with convolutional shortcuts where the shape changes.
inline constexpr std::string_view kResNetNames[] = {"resnet18",  "resnet34", "resnet50",
                                                    "resnet101", "resnet20", "resnet56"};

/// Empty for a name that is not in kResNetNames.
std::optional<ResNetConfig> find_resnet_config(std::string_view name);

/// Blocks: "stem", one per unit ("layer1.0" ...), "fc". Images are [B, H, W, 3] fp32. Throws for numbers that
/// are not positive.
BlockList build_resnet(const ResNetConfig& config);

}  // namespace trireme
