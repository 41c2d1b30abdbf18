#include "runtime/data/masked_tokens.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/rng.h"

namespace trireme {
namespace {

Philox4 draw(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::uint32_t stream) {
  const auto number = static_cast<std::uint64_t>(sample);
  return philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(number),
                     static_cast<std::uint32_t>(number >> 32), stream},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

bool is_target(const Philox4& words, double probability) {
  return static_cast<double>(words[0]) < probability * 4294967296.0;
}

}  // namespace

MaskedTokens::MaskedTokens(const Options& options) : options_(options) {
  TRIREME_CHECK(options.probability > 0 && options.probability <= 1,
                "the probability of a token to be a target must be above 0 and at most 1, not {}",
                options.probability);
  TRIREME_CHECK(options.mask_token >= 0 && options.mask_token < options.vocab_size,
                "the mask token {} is not below the vocabulary size {}", options.mask_token,
                options.vocab_size);
}

std::vector<bool> MaskedTokens::maskable(std::int64_t sample, Stream stream) const {
  const auto length = static_cast<std::size_t>(targets_per_sample());
  const std::vector<std::int32_t> ends =
      stream == Stream::kTrain ? train_documents(sample) : sequential_documents(sample);
  if (ends.empty()) return std::vector<bool>(length, true);
  std::vector<bool> tokens(length, false);
  std::fill_n(tokens.begin(), ends.back(), true);
  tokens[0] = false;
  for (const std::int32_t end : ends) {
    if (static_cast<std::size_t>(end) < length) tokens[static_cast<std::size_t>(end)] = false;
  }
  return tokens;
}

std::int64_t MaskedTokens::count_targets(std::int64_t first, std::int64_t count, Stream stream) const {
  std::int64_t num_targets = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const std::vector<bool> tokens = maskable(sample, stream);
    for (std::int64_t t = 0; t < targets_per_sample(); ++t) {
      if (!tokens[static_cast<std::size_t>(t)]) continue;
      const Philox4 words = draw(options_.seed, sample, t, static_cast<std::uint32_t>(stream));
      num_targets += is_target(words, options_.probability) ? 1 : 0;
    }
  }
  return num_targets;
}

HostBatch MaskedTokens::mask(HostBatch batch, std::int64_t first, Stream stream) const {
  constexpr std::uint32_t kTenth = 429496729;  // of 2^32
  const std::int64_t length = targets_per_sample();
  std::vector<bool> tokens;
  std::byte* at = batch.inputs.data();
  for (std::size_t i = 0; i < batch.targets.size(); ++i, at += sizeof(std::int32_t)) {
    const auto index = static_cast<std::int64_t>(i);
    if (index % length == 0) tokens = maskable(first + index / length, stream);
    batch.targets[i] = -1;
    if (!tokens[static_cast<std::size_t>(index % length)]) continue;
    const Philox4 words =
        draw(options_.seed, first + index / length, index % length, static_cast<std::uint32_t>(stream));
    if (!is_target(words, options_.probability)) continue;
    std::memcpy(&batch.targets[i], at, sizeof(std::int32_t));
    std::int32_t input = batch.targets[i];
    if (words[1] < 8 * kTenth) {
      input = options_.mask_token;
    } else if (words[1] < 9 * kTenth) {
      input = static_cast<std::int32_t>(words[2] % static_cast<std::uint32_t>(options_.vocab_size));
    }
    std::memcpy(at, &input, sizeof input);
  }
  return batch;
}

std::int64_t MaskedTokens::num_train_targets(std::int64_t first, std::int64_t count) const {
  return count_targets(first, count, Stream::kTrain);
}

std::int64_t MaskedTokens::num_sequential_targets(std::int64_t first, std::int64_t count) const {
  return count_targets(first, count, Stream::kSequential);
}

HostBatch MaskedTokens::read_train(std::int64_t first, std::int64_t count) const {
  return mask(options_.tokens->read_train(first, count), first, Stream::kTrain);
}

HostBatch MaskedTokens::read_sequential(std::int64_t first, std::int64_t count) const {
  return mask(options_.tokens->read_sequential(first, count), first, Stream::kSequential);
}

}  // namespace trireme
