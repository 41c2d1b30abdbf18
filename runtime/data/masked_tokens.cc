#include "runtime/data/masked_tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

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

}  // namespace

MaskedTokens::MaskedTokens(const Options& options) : options_(options) {
  TRIREME_CHECK(options.probability > 0 && options.probability <= 1,
                "the share of tokens that are targets must be above 0 and at most 1, not {}",
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

std::int64_t MaskedTokens::num_targets(std::int64_t tokens, double probability) {
  const std::int64_t share = std::llround(probability * static_cast<double>(tokens));
  return std::min(tokens, std::max<std::int64_t>(1, share));
}

std::int64_t MaskedTokens::count_targets(std::int64_t first, std::int64_t count, Stream stream) const {
  std::int64_t targets = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    targets += num_targets(std::ranges::count(maskable(sample, stream), true), options_.probability);
  }
  return targets;
}

std::vector<std::int32_t> MaskedTokens::targets_of(std::int64_t sample, Stream stream) const {
  std::vector<std::pair<std::uint32_t, std::int32_t>> drawn;  // number, position
  const std::vector<bool> tokens = maskable(sample, stream);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (!tokens[t]) continue;
    const auto position = static_cast<std::int32_t>(t);
    drawn.emplace_back(draw(options_.seed, sample, position, static_cast<std::uint32_t>(stream))[0],
                       position);
  }
  const std::int64_t count = num_targets(std::ssize(drawn), options_.probability);
  std::ranges::nth_element(drawn, drawn.begin() + count);
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i) positions.push_back(drawn[static_cast<std::size_t>(i)].second);
  std::ranges::sort(positions);
  return positions;
}

HostBatch MaskedTokens::mask(HostBatch batch, std::int64_t first, Stream stream) const {
  constexpr std::uint32_t kTenth = 429496729;  // of 2^32
  const std::int64_t length = targets_per_sample(), samples = batch.input_shape.dim(0);
  const std::int64_t most = num_targets(length, options_.probability);
  std::ranges::fill(batch.targets, -1);
  batch.target_positions.assign(static_cast<std::size_t>(samples * most), -1);
  for (std::int64_t row = 0; row < samples; ++row) {
    const std::vector<std::int32_t> positions = targets_of(first + row, stream);
    std::ranges::copy(positions, batch.target_positions.begin() + row * most);
    for (const std::int32_t position : positions) {
      const auto at = static_cast<std::size_t>(row * length + position);
      std::byte* const token = batch.inputs.data() + at * sizeof(std::int32_t);
      std::memcpy(&batch.targets[at], token, sizeof(std::int32_t));
      const Philox4 words = draw(options_.seed, first + row, position, static_cast<std::uint32_t>(stream));
      std::int32_t input = batch.targets[at];
      if (words[1] < 8 * kTenth) {
        input = options_.mask_token;
      } else if (words[1] < 9 * kTenth) {
        input = static_cast<std::int32_t>(words[2] % static_cast<std::uint32_t>(options_.vocab_size));
      }
      std::memcpy(token, &input, sizeof input);
    }
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
