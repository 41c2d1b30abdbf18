#include "launcher/commands/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "runtime/key_value_cache.h"

namespace trireme {
namespace {

// Batch rows are padded to a multiple of this, so that kernels prepare few shapes. Padding changes nothing,
// because a causal model does not see later tokens.
constexpr std::int64_t kLengthStep = 32;

/// The last `seen` tokens, padded to `length`.
HostBatch batch_of(const std::vector<std::int32_t>& tokens, std::int64_t seen, std::int64_t length) {
  HostBatch batch{.input_shape = {1, length}, .input_dtype = DType::kInt32};
  batch.inputs.resize(static_cast<std::size_t>(length) * sizeof(std::int32_t));
  std::memcpy(batch.inputs.data(), tokens.data() + (static_cast<std::int64_t>(tokens.size()) - seen),
              static_cast<std::size_t>(seen) * sizeof(std::int32_t));
  return batch;
}

std::vector<float> next_logits(Engine& engine, const std::vector<std::int32_t>& tokens,
                               const SamplingOptions& options, KeyValueCache& cache) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const bool cached = options.cache && num_tokens <= options.context;
  std::int64_t seen = std::min(num_tokens, options.context);
  Tensor logits;
  if (cached) {
    seen -= cache.length();
    logits = engine.infer(batch_of(tokens, seen, seen), &cache);
  } else {
    const std::int64_t padded = (seen + kLengthStep - 1) / kLengthStep * kLengthStep;
    logits = engine.infer(batch_of(tokens, seen, std::min(padded, options.context)));
  }
  return engine.context().to_host(logits.slice((seen - 1) * options.vocab, {options.vocab}));
}

}  // namespace

std::int32_t choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const std::size_t k =
      options.top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), likelier);
  order.resize(k);
  const double largest = logits[static_cast<std::size_t>(order[0])];
  TRIREME_CHECK(std::isfinite(largest), "the model gives a logit of {}: its parameters are damaged", largest);
  if (options.temperature <= 0) return order[0];

  std::vector<double> cumulative;
  double sum = 0;
  for (const std::int32_t token : order) {
    sum += std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest) /
                    options.temperature);
    cumulative.push_back(sum);
  }
  if (options.top_p < 1.0) {
    const auto last = std::lower_bound(cumulative.begin(), cumulative.end(), options.top_p * sum);
    cumulative.erase(std::min(last, cumulative.end() - 1) + 1, cumulative.end());
    sum = cumulative.back();
  }
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), uniform * sum);
  return order[std::min(static_cast<std::size_t>(chosen - cumulative.begin()), cumulative.size() - 1)];
}

std::vector<std::int32_t> generate(Engine& engine, std::vector<std::int32_t> prompt,
                                   const SamplingOptions& options,
                                   const std::function<bool(std::span<const std::int32_t>)>& goes_on) {
  TRIREME_CHECK(!prompt.empty(), "sampling starts from at least one token");
  TRIREME_CHECK(std::isfinite(options.temperature) && options.temperature >= 0,
                "the temperature must be a number from 0 on, not {}", options.temperature);
  TRIREME_CHECK(options.top_p > 0 && options.top_p <= 1, "top_p must be above 0 and at most 1, not {}",
                options.top_p);
  KeyValueCache cache(1, options.context);
  std::vector<std::int32_t> tokens = std::move(prompt);
  const std::size_t prompt_size = tokens.size();
  for (std::int64_t i = 0; i < options.num_tokens; ++i) {
    const std::vector<float> logits = next_logits(engine, tokens, options, cache);
    const auto choices = std::span(logits).first(
        options.choices > 0 ? static_cast<std::size_t>(options.choices) : logits.size());
    const Philox4 words = RngKey{.seed = options.seed}.draw(static_cast<std::uint32_t>(i), 0);
    tokens.push_back(choose_token(choices, options, uniform_from_bits(words[0])));
    if (goes_on && !goes_on(std::span(tokens).subspan(prompt_size))) break;
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt_size), tokens.end()};
}

}  // namespace trireme
