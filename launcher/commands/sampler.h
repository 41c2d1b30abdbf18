// Text from a trained model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/run/engine.h"

namespace trireme {

struct SamplingOptions {
  std::int64_t num_tokens = 0;  // to generate
  std::int64_t context = 0;     // the model's: only that many last tokens are seen
  std::int64_t vocab = 0;       // of the model
  std::int64_t choices = 0;     // draw from the first of them, where a padded vocabulary has more; 0: all
  double temperature = 1.0;     // 0: always the likeliest token
  std::int64_t top_k = 0;       // choose among the k likeliest; 0: among all
  double top_p = 1.0;           // of those, among the fewest that have this probability together
  std::uint64_t seed = 0;
  bool cache = true;  // of keys and values; false: every token is computed from the whole context
};

/// Chooses a token from logits [vocab]: softmax(logits / temperature) over the top k, of which the
/// likeliest that reach top_p (Holtzman et al. 2020). `uniform` is in [0, 1).
std::int32_t choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

/// Continues `prompt` (at least one token). Returns the new tokens; `goes_on` sees all of them so far after
/// each, and ends the text with false. The same seed gives the same tokens. Beyond the model's context the
/// last `context` tokens are computed anew for each token, cache or not: their positions have changed. Throws
/// Error(kInvalidInput) for a temperature that is no number.
std::vector<std::int32_t> generate(Engine& engine, std::vector<std::int32_t> prompt,
                                   const SamplingOptions& options,
                                   const std::function<bool(std::span<const std::int32_t>)>& goes_on = {});

}  // namespace trireme
