// Tokens generated from a seed, for benchmarks and tests without files.
#pragma once

#include <cstdint>

#include "runtime/data/synthetic_dataset.h"

namespace trireme {

/// Samples are int32 [B, T] inputs and targets. Each sequence starts at a random token. With probability 3/4
/// a token is the previous one plus a stride fixed by the seed (modulo the vocabulary), else uniform, so that
/// there is something to learn. Training samples never repeat, and evaluation samples differ from them.
class SyntheticTokens final : public SyntheticDataset {
 public:
  struct Options {
    std::int64_t num_samples = 0;  // samples per pass
    std::int64_t sequence_length = 0;
    std::int64_t vocab_size = 0;
    std::uint64_t seed = 0;
  };

  /// Throws Error(kInvalidInput) when a size is not positive or the vocabulary is below 2.
  explicit SyntheticTokens(const Options& options);

  std::int64_t targets_per_sample() const override { return options_.sequence_length; }

 private:
  HostBatch make(std::int64_t first, std::int64_t count, Set set) const override;

  Options options_;
  std::int64_t stride_;
};

}  // namespace trireme
