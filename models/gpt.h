// GPT-2 (Radford et al. 2019) as blocks: embedding, pre-norm transformer blocks, head with loss.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/block.h"

namespace trireme {

struct GptConfig {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t vocab = 50257;
  std::int64_t seq_len = 1024;  // longest context: rows of the position table
  float dropout = 0.0f;         // on embeddings, attention probabilities and both residual branches
  double norm_epsilon = 1e-5;
  bool tied = true;             // the head uses the token table
  int tensor_chunks = 1;        // chunks of each layer; divides heads
  std::int64_t loss_parts = 1;  // see TokenHeadConfig
};

/// GPT-2's sizes (context 1024), and GPT-3's 13B (40 layers, hidden 5120, 40 heads, context 2048).
inline constexpr std::string_view kGptSizes[] = {"124m", "350m", "774m", "1.5b", "13b"};

/// Throws Error(kInvalidInput) for a size that is not in kGptSizes.
GptConfig gpt_config_for_size(std::string_view size);

/// layers + 2 blocks: "embedding", "blocks.0" ..., "head". Weights are normal(0, 0.02), projections into the
/// residual stream normal(0, 0.02 / sqrt(2 layers)), norms one, biases zero. Throws if heads does not divide
/// hidden.
BlockList build_gpt(const GptConfig& config);

}  // namespace trireme
