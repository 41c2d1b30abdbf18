#include "models/unet.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/unet_blocks.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Adds the blocks in order. The condition travels up to the last block that attends to it.
class UnetBuilder {
 public:
  explicit UnetBuilder(const UnetConfig& config) : config_(config) {}

  BlockList build() {
    blocks_.push_back(std::make_unique<UnetInput>(config_));
    skips_.push_back(config_.widths.front());
    for (std::int64_t level = 0; level < config_.num_levels(); ++level) add_down(level);
    for (std::int64_t index = 0; index < 2; ++index) {
      const std::int64_t width = config_.widths.back();
      add_unit({.prefix = "mid_block",
                .index = index,
                .level = config_.num_levels() - 1,
                .inputs = width,
                .outputs = width,
                .attends = index == 0});
    }
    for (std::int64_t level = config_.num_levels() - 1; level >= 0; --level) add_up(level);
    blocks_.push_back(std::make_unique<UnetOutput>(config_));
    return std::move(blocks_);
  }

 private:
  std::int64_t width_of(std::int64_t level) const {
    return config_.widths[static_cast<std::size_t>(std::max<std::int64_t>(0, level))];
  }

  void add_unit(UnetUnit::Config unit) {
    unit.has_condition = passes_condition_;
    // On the way up, levels below the lowest one with attention need no condition.
    const auto lowest = std::ranges::min_element(config_.attention_levels);
    const std::int64_t last_level = lowest == config_.attention_levels.end() ? config_.num_levels() : *lowest;
    const bool is_last_of_level = unit.index == config_.layers;
    if (unit.skip == UnetUnit::Skip::kPop && unit.level == last_level && is_last_of_level) {
      passes_condition_ = false;
    }
    if (unit.prefix == "mid_block" && unit.index == 0 && last_level == config_.num_levels()) {
      passes_condition_ = false;
    }
    unit.passes_condition = passes_condition_;
    blocks_.push_back(std::make_unique<UnetUnit>(unit, config_));
  }

  void add_down(std::int64_t level) {
    const std::string prefix = fmt::format("down_blocks.{}", level);
    const std::int64_t width = width_of(level);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      add_unit({.prefix = prefix,
                .index = i,
                .level = level,
                .inputs = i == 0 ? width_of(level - 1) : width,
                .outputs = width,
                .skip = UnetUnit::Skip::kPush,
                .attends = config_.has_attention(level)});
      skips_.push_back(width);
    }
    if (level + 1 == config_.num_levels()) return;
    add_resample(prefix, level, UnetResample::Direction::kDown);
    skips_.push_back(width);
  }

  void add_up(std::int64_t level) {
    const std::string prefix = fmt::format("up_blocks.{}", config_.num_levels() - 1 - level);
    const std::int64_t width = width_of(level);
    std::int64_t inputs = width_of(std::min(level + 1, config_.num_levels() - 1));
    for (std::int64_t i = 0; i <= config_.layers; ++i) {
      add_unit({.prefix = prefix,
                .index = i,
                .level = level,
                .inputs = inputs + skips_.back(),
                .outputs = width,
                .skip = UnetUnit::Skip::kPop,
                .attends = config_.has_attention(level),
                .passes_time = level > 0 || i < config_.layers});
      skips_.pop_back();
      inputs = width;
    }
    if (level > 0) add_resample(prefix, level, UnetResample::Direction::kUp);
  }

  void add_resample(const std::string& prefix, std::int64_t level, UnetResample::Direction direction) {
    blocks_.push_back(std::make_unique<UnetResample>(UnetResample::Config{.prefix = prefix,
                                                                          .level = level,
                                                                          .width = width_of(level),
                                                                          .direction = direction,
                                                                          .has_condition = passes_condition_},
                                                     config_.style));
  }

  const UnetConfig& config_;
  BlockList blocks_;
  std::vector<std::int64_t> skips_;  // channels of the skip connections
  bool passes_condition_ = config_.condition_width > 0;
};

}  // namespace

bool UnetConfig::has_attention(std::int64_t level) const {
  return std::ranges::find(attention_levels, level) != attention_levels.end();
}

std::int64_t UnetConfig::heads_of(std::int64_t width) const {
  if (heads > 0) return heads;
  return head_width > 0 ? width / head_width : 1;
}

UnetConfig unet_config_for_size(std::string_view size) {
  if (size == "cifar-tiny") {
    return {.widths = {16, 32, 48}, .layers = 1, .attention_levels = {2}, .norm_groups = 8};
  }
  if (size == "cifar-small") {
    return {.widths = {32, 64, 128}, .layers = 1, .attention_levels = {2}, .norm_groups = 16};
  }
  if (size == "ddpm-cifar10") return {.norm_epsilon = 1e-6, .style = UnetStyle::kDdpm};
  const UnetConfig stable_diffusion{.channels = 4,
                                    .widths = {320, 640, 1280, 1280},
                                    .attention_levels = {0, 1, 2},
                                    .heads = 8,
                                    .condition_width = 768};
  if (size == "sd1") return stable_diffusion;
  if (size == "sd2") {
    UnetConfig config = stable_diffusion;
    config.heads = 0;
    config.head_width = 64;
    config.condition_width = 1024;
    config.linear_projection = true;
    return config;
  }
  throw Error(ErrorCode::kInvalidInput, "unet: there is no size '{}'; use {}, or give widths instead", size,
              fmt::join(kUnetSizes, ", "));
}

void check_unet(const UnetConfig& c) {
  TRIREME_CHECK(!c.widths.empty() && c.num_levels() <= 10, "unet: {} levels (widths) are not 1 to 10",
                c.widths.size());
  TRIREME_CHECK(c.channels >= 1 && c.layers >= 1 && c.layers <= 100 && c.norm_groups >= 1,
                "unet: channels {}, layers {} and norm_groups {} must be positive, and layers at most 100",
                c.channels, c.layers, c.norm_groups);
  TRIREME_CHECK(c.condition_width >= 0 && c.classes >= 0 && c.heads >= 0 && c.head_width >= 0,
                "unet: condition_width {}, classes {}, heads {} and head_width {} must not be negative",
                c.condition_width, c.classes, c.heads, c.head_width);
  TRIREME_CHECK(c.heads == 0 || c.head_width == 0,
                "unet: heads = {} and head_width = {} both give the number of heads: set one of them to 0",
                c.heads, c.head_width);
  for (const std::int64_t level : c.attention_levels) {
    TRIREME_CHECK(level >= 0 && level < c.num_levels(),
                  "unet: attention at level {} of a network with the levels 0 to {}", level,
                  c.num_levels() - 1);
  }
  for (std::int64_t level = 0; level < c.num_levels(); ++level) {
    const std::int64_t width = c.widths[static_cast<std::size_t>(level)];
    TRIREME_CHECK(width >= 1 && width % c.norm_groups == 0,
                  "unet: norm_groups {} do not divide the width {} of level {}", c.norm_groups, width, level);
    const bool attends = c.has_attention(level) || level + 1 == c.num_levels();
    const std::int64_t heads = c.heads > 0 ? c.heads : 1, head_width = c.head_width > 0 ? c.head_width : 1;
    TRIREME_CHECK(!attends || (width % heads == 0 && width % head_width == 0),
                  "unet: the width {} of level {} cannot be split into {} heads of width {}", width, level,
                  c.heads > 0 ? fmt::format("{}", c.heads) : "any number of",
                  c.head_width > 0 ? fmt::format("{}", c.head_width) : "any size");
  }
  const std::int64_t least = c.style == UnetStyle::kDdpm ? 4 : 2;  // time embeddings have this width
  TRIREME_CHECK(c.widths[0] >= least, "unet: the first of widths, {}, is less than {}", c.widths[0], least);
}

BlockList build_unet(const UnetConfig& config) {
  check_unet(config);
  return UnetBuilder(config).build();
}

}  // namespace trireme
