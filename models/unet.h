// The UNets of diffusion models (Ho et al. 2020; Rombach et al. 2022) as blocks, with the shapes and the
// parameter names of diffusers' UNet2DModel and UNet2DConditionModel.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/block.h"

namespace trireme {

/// Differences between UNets that no shape of a parameter shows.
enum class UnetStyle : std::uint8_t {
  kDdpm,    // Ho et al. 2020: time embeddings with sines first; strided convolutions pad right and below only
  kLatent,  // Rombach et al. 2022, and diffusers' defaults: cosines first; padding on all sides
};

struct UnetConfig {
  std::int64_t channels = 3;  // of the image and of the prediction
  // Channels of each level, from the full resolution on. Each level halves the image of the one before.
  std::vector<std::int64_t> widths = {128, 256, 256, 256};
  std::int64_t layers = 2;  // residual units of a level; on the way up there is one more
  std::vector<std::int64_t> attention_levels = {
      1};  // levels whose units have attention; the middle has it too
  // The heads of each attention: `heads`, or else width / head_width, or else one.
  std::int64_t heads = 0, head_width = 0;
  /// Width of the condition's vectors. 0: UNet2DModel, with self-attention. Else UNet2DConditionModel, whose
  /// attention is a transformer block: self-attention, attention to the condition, and an MLP.
  std::int64_t condition_width = 0;
  bool linear_projection = false;  // of the transformers; else 1 x 1 convolutions
  std::int64_t classes = 0;        // rows of the class table; 0: not class-conditional
  std::int64_t norm_groups = 32;
  double norm_epsilon = 1e-5;  // of group norms; those before transformers have 1e-6, as in diffusers
  float dropout = 0.0f;        // in residual units, while training
  UnetStyle style = UnetStyle::kLatent;

  std::int64_t num_levels() const { return static_cast<std::int64_t>(widths.size()); }
  bool has_attention(std::int64_t level) const;
  std::int64_t heads_of(std::int64_t width) const;
  std::int64_t time_width() const { return 4 * widths.front(); }
  /// Sides of an image must be multiples of this.
  std::int64_t side_factor() const { return std::int64_t{1} << (num_levels() - 1); }
};

/// "ddpm-cifar10": Ho et al. 2020. "sd1", "sd2": Stable Diffusion 1.x and 2.x, on latents. "cifar-tiny" and
/// "cifar-small" have about 0.5 and 3 million parameters, for CPUs.
inline constexpr std::string_view kUnetSizes[] = {"cifar-tiny", "cifar-small", "ddpm-cifar10", "sd1", "sd2"};

/// Throws Error(kInvalidInput) for a size that is not in kUnetSizes.
UnetConfig unet_config_for_size(std::string_view size);

/// Throws Error(kInvalidInput) for numbers that are not positive, norm groups or heads that do not divide a
/// width, and levels that do not exist.
void check_unet(const UnetConfig& config);

/// Blocks: "conv_in" (with the embeddings of time and class), one for each residual unit with its attention
/// and for each change of resolution ("down_blocks.0.0", "down_blocks.0.downsamplers.0", ...), "conv_out".
/// The first block reads noised images [B, H, W, channels] fp32 and timesteps [B], and classes [B] or a
/// condition [B, L, condition_width] where the network has one. The last returns the mean squared error, or
/// the prediction [B, H, W, channels] if the batch has no targets. Initial values as in PyTorch. Throws the
/// errors of check_unet().
BlockList build_unet(const UnetConfig& config);

}  // namespace trireme
