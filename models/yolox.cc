#include "models/yolox.h"

#include <fmt/ranges.h>

#include "models/yolox_blocks.h"
#include "runtime/base/error.h"

namespace trireme {

YoloxConfig yolox_config_for_size(std::string_view size) {
  if (size == "nano") return {.layers = 1, .width = 16, .separable = true};
  if (size == "tiny") return {.layers = 1, .width = 24};
  if (size == "s") return {.layers = 1, .width = 32};
  if (size == "m") return {.layers = 2, .width = 48};
  if (size == "l") return {};
  if (size == "x") return {.layers = 4, .width = 80};
  throw Error(ErrorCode::kInvalidInput, "yolox: there is no size '{}'; use {}", size,
              fmt::join(kYoloxSizes, ", "));
}

std::int64_t yolox_anchors(std::int64_t height, std::int64_t width) {
  const std::int64_t coarsest = kYoloxStrides.back();
  TRIREME_CHECK(
      height >= 1 && width >= 1 && height % coarsest == 0 && width % coarsest == 0,
      "yolox: an image of {} x {} has no feature map of stride {}: use sides that are multiples of {}",
      height, width, coarsest, coarsest);
  std::int64_t anchors = 0;
  for (const std::int64_t stride : kYoloxStrides) anchors += (height / stride) * (width / stride);
  return anchors;
}

BlockList build_yolox(const YoloxConfig& config) {
  TRIREME_CHECK(config.layers >= 1 && config.width >= 1 && config.classes >= 1,
                "yolox: layers {}, width {} and classes {} must all be positive", config.layers, config.width,
                config.classes);
  const std::int64_t width = config.width;
  BlockList blocks;
  blocks.push_back(std::make_unique<YoloxStem>(config));
  for (int stage = 2; stage <= 5; ++stage) blocks.push_back(std::make_unique<YoloxStage>(config, stage));
  blocks.push_back(std::make_unique<YoloxFiner>(config, "C3_p4", "lateral_conv0", 16 * width));
  blocks.push_back(std::make_unique<YoloxFiner>(config, "C3_p3", "reduce_conv1", 8 * width));
  blocks.push_back(std::make_unique<YoloxCoarser>(config, "C3_n3", "bu_conv2", 4 * width));
  blocks.push_back(std::make_unique<YoloxCoarser>(config, "C3_n4", "bu_conv1", 8 * width));
  for (int level = 2; level >= 0; --level) blocks.push_back(std::make_unique<YoloxHead>(config, level));
  return blocks;
}

}  // namespace trireme
