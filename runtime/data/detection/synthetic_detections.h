// Pictures with boxes generated from a seed, for benchmarks and tests without files.
#pragma once

#include <cstdint>

#include "runtime/data/synthetic_dataset.h"

namespace trireme {

/// Inputs [B, S, S, 3] fp32; targets [B, M, 5] and weights [B] as DetectionDataset gives them, all weights 0.
/// Pixels are noise; each of the one to four objects is a rectangle in the colour of its class. Training
/// samples never repeat, and evaluation samples differ from them.
class SyntheticDetections final : public SyntheticDataset {
 public:
  struct Options {
    std::int64_t num_samples = 0;  // per pass
    std::int64_t side = 0;         // pixels
    std::int64_t num_classes = 0;
    std::int64_t max_boxes = 0;
    std::uint64_t seed = 0;
  };
  /// Throws Error(kInvalidInput) when a number is not positive.
  explicit SyntheticDetections(const Options& options);

  std::int64_t samples_per_read() const override { return 1; }

 private:
  HostBatch make(std::int64_t first, std::int64_t count, Set set) const override;

  Options options_;
};

}  // namespace trireme
