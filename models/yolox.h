// YOLOX (Ge et al. 2021, arXiv 2107.08430) as blocks: CSPDarknet, PAFPN and a decoupled head for each scale.
// Parameters and running statistics have the names of the authors' program.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/block.h"

namespace trireme {

struct YoloxConfig {
  std::int64_t layers =
      3;  // bottlenecks of a CSP layer; the backbone's stages of stride 8 and 16 have 3 times more
  std::int64_t width = 64;  // channels of the stem; each halving of the image doubles them
  bool separable = false;   // 3 x 3 convolutions as a depthwise one and a 1 x 1 one; not in the stem
  std::int64_t classes = 80;
};

/// The sizes of the paper.
inline constexpr std::string_view kYoloxSizes[] = {"nano", "tiny", "s", "m", "l", "x"};

/// Pixels of the image for one pixel of a feature map, in the order of the predictions.
inline constexpr std::array<std::int64_t, 3> kYoloxStrides = {8, 16, 32};

/// Throws Error(kInvalidInput) for a size that is not in kYoloxSizes.
YoloxConfig yolox_config_for_size(std::string_view size);

/// Rows of the predictions for an image of this size: one for each pixel of the three feature maps.
std::int64_t yolox_anchors(std::int64_t height, std::int64_t width);

/// Blocks: "stem", "dark2" to "dark5", "C3_p4", "C3_p3", "C3_n3", "C3_n4", "head.2", "head.1", "head.0". The
/// first reads images [B, H, W, 3] fp32 with sides that are multiples of 32. The last returns raw predictions
/// [B, yolox_anchors(H, W), 5 + classes], with targets and without: build_yolox_detector() puts the loss
/// behind it. A row holds the box's x and y relative to its pixel and the logarithms of width and height, all
/// in units of the stride, the logit of the objectness and the logits of the classes. Rows are ordered by
/// stride, then as pixels of their feature map. Throws Error(kInvalidInput) for numbers that are not
/// positive.
BlockList build_yolox(const YoloxConfig& config);

}  // namespace trireme
