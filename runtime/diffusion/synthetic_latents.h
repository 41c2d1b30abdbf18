// Random clean samples of any shape, to measure the speed of denoising networks.
#pragma once

#include <cstdint>

#include "runtime/data/synthetic_dataset.h"

namespace trireme {

/// Inputs [B, h, w, c] of smooth waves in about [-1, 1], labels, and a condition of normal numbers. A sample
/// is a function of the seed and its index; both orders have the same samples.
class SyntheticLatents final : public SyntheticDataset {
 public:
  struct Options {
    std::int64_t num_samples = 1024;  // per pass
    Shape latent;                     // [h, w, c]
    Shape condition;                  // [L, D]; rank 0: none
    std::int64_t classes = 0;         // labels are below this number; 0: all are 0
    std::uint64_t seed = 0;
  };
  /// Throws Error(kInvalidInput) unless `latent` has three dims and there are samples.
  explicit SyntheticLatents(const Options& options);

 private:
  HostBatch make(std::int64_t first, std::int64_t count, Set set) const override;

  Options options_;
};

}  // namespace trireme
