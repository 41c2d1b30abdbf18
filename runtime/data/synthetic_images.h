// Images generated from a seed, for benchmarks and tests without files.
#pragma once

#include <cstdint>

#include "runtime/data/synthetic_dataset.h"

namespace trireme {

/// Inputs [B, S, S, 3] fp32 with mean about 0 and variance about 1; targets [B] labels. Pixels are noise
/// around a pattern of the class (a wave with its own direction and colour), so that there is something to
/// learn. Training samples never repeat, and evaluation samples differ from them.
class SyntheticImages final : public SyntheticDataset {
 public:
  struct Options {
    std::int64_t num_samples = 0;  // samples per pass
    std::int64_t size = 0;         // side, pixels
    std::int64_t num_classes = 0;
    std::uint64_t seed = 0;
  };
  /// Throws Error(kInvalidInput) when a number is not positive.
  explicit SyntheticImages(const Options& options);

  std::int64_t samples_per_read() const override { return 1; }

 private:
  HostBatch make(std::int64_t first, std::int64_t count, Set set) const override;

  Options options_;
};

}  // namespace trireme
