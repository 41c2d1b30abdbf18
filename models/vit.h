// Vision transformers (Dosovitskiy et al. 2021) as blocks: patch embedding, one block per layer, head with
// loss. Parameters have torchvision's names and shapes.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/token_pool_head.h"
#include "runtime/block.h"

namespace trireme {

struct VitConfig {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t ffn = 3072;
  std::int64_t patch = 16;        // side in pixels
  std::int64_t image_size = 224;  // side for which positions exist
  std::int64_t classes = 1000;
  TokenPool pool = TokenPool::kClassToken;  // or kMean
  double norm_epsilon = 1e-6;
  float dropout = 0.0f;           // on embeddings, attention probabilities and both residual branches
  float stochastic_depth = 0.0f;  // of the last layer; grows linearly from 0 at the first
  float label_smoothing = 0.0f;   // in training
  int tensor_chunks = 1;          // in the layers: [Note: tensor chunks] in runtime/parameter_slice.h

  std::int64_t num_patches() const { return (image_size / patch) * (image_size / patch); }
  std::int64_t num_tokens() const { return num_patches() + (pool == TokenPool::kClassToken ? 1 : 0); }
};

/// "b", "l", "h" from Dosovitskiy et al. 2021; "ti", "s" from Touvron et al. 2021 (DeiT). Patches are 16
/// pixels wide, and 14 for "h".
inline constexpr std::string_view kVitSizes[] = {"ti", "s", "b", "l", "h"};

/// Throws Error(kInvalidInput) for a size that is not in kVitSizes.
VitConfig vit_config_for_size(std::string_view size);

/// layers + 2 blocks: "embedding", "blocks.0" ..., "head". Images are [B, image_size, image_size, 3] fp32.
/// Weights are normal(0, 0.02), patch weights normal(0, 1 / sqrt(3 patch^2)), norms one, biases zero. Throws
/// Error(kInvalidInput) for numbers that are not positive, if heads does not divide hidden, if tensor_chunks
/// does not divide heads and ffn, or if the image is not a whole number of patches.
BlockList build_vit(const VitConfig& config);

}  // namespace trireme
