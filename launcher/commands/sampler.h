// Generates text with a trained model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/run/engine.h"

namespace trireme {

struct SamplingOptions {
  std::int64_t num_tokens = 0;  // to generate
  std::int64_t context = 0;     // of the model: the number of last tokens it sees; recurrent: the maximum
  std::int64_t vocab = 0;       // of the model
  std::int64_t choices = 0;     // number of valid tokens, if the vocabulary is padded; 0: all
  double temperature = 1.0;     // 0: always the most likely token
  std::int64_t top_k = 0;       // choose among the k most likely; 0: all
  double top_p = 1.0;           // among these, the smallest set with at least this probability
  std::uint64_t seed = 0;
  bool cache = true;  // keep keys and values, or states; false: recompute the context for every token
};

/// Chooses a token from logits [vocab]: softmax(logits / temperature) over the top k, restricted to the most
/// likely ones that reach top_p (Holtzman et al. 2020). `uniform` is in [0, 1).
std::int32_t choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

/// Continues `prompt` (at least one token) and returns the new tokens. `goes_on` is called after each token
/// with all new tokens, and stops the generation by returning false. The same seed gives the same tokens.
/// Beyond the model's context, the last `context` tokens are recomputed for each token even with a cache,
/// because their positions change. Throws Error(kInvalidInput) if the temperature is NaN.
std::vector<std::int32_t> generate(Engine& engine, std::vector<std::int32_t> prompt,
                                   const SamplingOptions& options,
                                   const std::function<bool(std::span<const std::int32_t>)>& goes_on = {});

}  // namespace trireme
