#include "models/resnet.h"

#include "models/residual_unit.h"
#include "models/resnet_head.h"
#include "models/resnet_stem.h"
#include "runtime/base/error.h"

namespace trireme {

std::optional<ResNetConfig> find_resnet_config(std::string_view name) {
  using enum ResNetConfig::Stem;
  if (name == "resnet18") return ResNetConfig{.bottleneck = false, .units = {2, 2, 2, 2}};
  if (name == "resnet34") return ResNetConfig{.bottleneck = false, .units = {3, 4, 6, 3}};
  if (name == "resnet50") return ResNetConfig{.units = {3, 4, 6, 3}};
  if (name == "resnet101") return ResNetConfig{.units = {3, 4, 23, 3}};
  if (name == "resnet20") {
    return ResNetConfig{.stem = kCifar, .bottleneck = false, .units = {3, 3, 3}, .width = 16, .classes = 10};
  }
  if (name == "resnet56") {
    return ResNetConfig{.stem = kCifar, .bottleneck = false, .units = {9, 9, 9}, .width = 16, .classes = 10};
  }
  return std::nullopt;
}

BlockList build_resnet(const ResNetConfig& config) {
  TRIREME_CHECK(config.width >= 1 && config.classes >= 1 && !config.units.empty(),
                "resnet: width {} and classes {} must be positive, and there must be a stage", config.width,
                config.classes);
  TRIREME_CHECK(config.label_smoothing >= 0 && config.label_smoothing < 1,
                "resnet: label_smoothing = {} is not in [0, 1)", config.label_smoothing);
  BlockList blocks;
  blocks.push_back(std::make_unique<ResNetStem>(config));
  std::int64_t channels = config.width, width = config.width;
  for (std::size_t stage = 0; stage < config.units.size(); ++stage) {
    TRIREME_CHECK(config.units[stage] >= 1, "resnet: stage {} has {} units", stage + 1, config.units[stage]);
    for (std::int64_t unit = 0; unit < config.units[stage]; ++unit) {
      const ResidualUnitConfig of_unit{.bottleneck = config.bottleneck,
                                       .channels = channels,
                                       .width = width,
                                       .stride = unit == 0 && stage > 0 ? 2 : 1};
      blocks.push_back(std::make_unique<ResidualUnit>(fmt::format("layer{}.{}", stage + 1, unit), of_unit));
      channels = of_unit.outputs();
    }
    width *= 2;
  }
  blocks.push_back(std::make_unique<ResNetHead>(config, channels));
  return blocks;
}

}  // namespace trireme
