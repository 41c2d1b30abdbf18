// Compact convolutional transformers (Hassani et al. 2021, "Escaping the Big Data Paradigm with Compact
// Transformers") as blocks: convolutional tokenizer, one block per layer, head with sequence pooling.
//
// The layers follow the paper, pre-norm like ViT's. The authors' program adds the MLP to its normed input
// instead; the number of parameters is the same.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/block.h"

namespace trireme {

struct CctConfig {
  std::int64_t layers = 2;
  std::int64_t hidden = 128;
  std::int64_t heads = 2;
  std::int64_t ffn = 128;
  std::int64_t convs = 2;        // in the tokenizer, each with a max pool that halves the image
  std::int64_t image_size = 32;  // side for which positions exist
  std::int64_t classes = 10;
  float dropout = 0.0f;           // on embeddings, attention probabilities and both residual branches
  float stochastic_depth = 0.0f;  // of the last layer; grows linearly from 0 at the first
  float label_smoothing = 0.0f;   // in training
  int tensor_chunks = 1;          // in the layers: [Note: tensor chunks] in runtime/parameter_slice.h

  /// Side, in tokens, of the tokenizer's output for an image.
  std::int64_t side() const;
};

/// layers / kernel side x convolutions, as in the paper.
inline constexpr std::string_view kCctSizes[] = {"2/3x2", "4/3x2", "6/3x1", "6/3x2", "7/3x1", "7/3x2"};

/// Throws Error(kInvalidInput) for a size that is not in kCctSizes.
CctConfig cct_config_for_size(std::string_view size);

/// layers + 2 blocks: "tokenizer", "blocks.0" ..., "head". Images are [B, image_size, image_size, 3] fp32.
/// Linear weights are normal(0, 0.02), positions normal(0, 0.2), kernels as in He et al. 2015. Throws
/// Error(kInvalidInput) for numbers that are not positive, if heads does not divide hidden, or if
/// tensor_chunks does not divide heads and ffn.
BlockList build_cct(const CctConfig& config);

}  // namespace trireme
