#include "runtime/data/synthetic_tokens.h"

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/rng.h"

namespace trireme {
namespace {

// Values of the last counter word, distinct from the values that ops use (see RngKey::draw).
constexpr std::uint32_t kStrideStream = 0xFFFF0010u;
constexpr std::uint32_t kTrainStream = 0xFFFF0011u;
constexpr std::uint32_t kEvalStream = 0xFFFF0012u;

Philox4 draw(std::uint64_t seed, std::uint64_t sample, std::uint32_t position, std::uint32_t stream) {
  return philox4x32(
      {position, static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32), stream},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace

SyntheticTokens::SyntheticTokens(const Options& options)
    : SyntheticDataset(options.num_samples), options_(options) {
  TRIREME_CHECK(options.sequence_length > 0, "synthetic data needs a sequence length of at least 1, not {}",
                options.sequence_length);
  TRIREME_CHECK(options.vocab_size > 1 && options.vocab_size <= 2147483647,
                "synthetic data needs a vocabulary of 2 to 2147483647 tokens, not {}", options.vocab_size);
  stride_ = 1 + draw(options.seed, 0, 0, kStrideStream)[0] % (options.vocab_size - 1);
}

HostBatch SyntheticTokens::make(std::int64_t first, std::int64_t count, Set set) const {
  const std::uint32_t stream = set == Set::kTrain ? kTrainStream : kEvalStream;
  const std::int64_t length = options_.sequence_length;
  HostBatch batch;
  batch.input_shape = batch.target_shape = {count, length};
  batch.input_dtype = DType::kInt32;
  batch.inputs.resize(static_cast<std::size_t>(count * length) * sizeof(std::int32_t));
  batch.targets.resize(static_cast<std::size_t>(count * length));
  std::byte* input = batch.inputs.data();
  std::int32_t* target = batch.targets.data();
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const auto number = static_cast<std::uint64_t>(sample);
    std::int64_t token = draw(options_.seed, number, 0, stream)[1] % options_.vocab_size;
    for (std::int64_t position = 1; position <= length; ++position) {
      const auto before = static_cast<std::int32_t>(token);
      std::memcpy(input, &before, sizeof before);
      input += sizeof before;
      const Philox4 words = draw(options_.seed, number, static_cast<std::uint32_t>(position), stream);
      token = (words[0] & 3u) != 0 ? (token + stride_) % options_.vocab_size : words[1] % options_.vocab_size;
      *target++ = static_cast<std::int32_t>(token);
    }
  }
  return batch;
}

}  // namespace trireme
