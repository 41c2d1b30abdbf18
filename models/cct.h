// Compact convolutional transformers (Hassani et al. 2021, "Escaping the Big Data Paradigm with Compact
// Transformers") as blocks: convolutional tokenizer, a block a layer, head with sequence pooling.
//
// The layers are those of the paper, pre-norm as ViT's. The authors' program adds the MLP to its normed
// input instead; numbers of parameters are the same.
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
  std::int64_t convs = 2;        // of the tokenizer, each with a max pool that halves the image
  std::int64_t image_size = 32;  // side that the positions are made for
  std::int64_t classes = 10;
  float dropout = 0.0f;           // on embeddings, attention probabilities and both residual branches
  float stochastic_depth = 0.0f;  // of the last layer; that of the others grows from 0
  float label_smoothing = 0.0f;   // of the loss in training
  int tensor_chunks = 1;          // of the layers: [Note: tensor chunks] in runtime/parameter_slice.h

  /// Side of what the tokenizer makes of an image, in tokens.
  std::int64_t side() const;
};

/// Layers / side of the kernels x convolutions, as in the paper.
inline constexpr std::string_view kCctSizes[] = {"2/3x2", "4/3x2", "6/3x1", "6/3x2", "7/3x1", "7/3x2"};

/// Throws Error(kInvalidInput) for a size that is none of kCctSizes.
CctConfig cct_config_for_size(std::string_view size);

/// layers + 2 blocks: "tokenizer", "blocks.0" ..., "head". Images are [B, image_size, image_size, 3] fp32.
/// Linear weights are normal(0, 0.02), positions normal(0, 0.2), kernels as in He et al. 2015. Throws
/// Error(kInvalidInput) for numbers that are not positive, heads that do not divide hidden and
/// chunks that do not divide heads and ffn.
BlockList build_cct(const CctConfig& config);

}  // namespace trireme
