// Noised samples generated from a seed, for benchmarks and tests of denoising networks without files.
#pragma once

#include <cstdint>

#include "runtime/data/dataset.h"

namespace trireme {

/// Inputs x_t [B, S, S, C] = sqrt(1 - t / 1000) x_0 + sqrt(t / 1000) e; targets are the noise e, standard
/// normal; x_0 is a plane of one value per channel. Timesteps are in [0, 1000). The condition is normal
/// noise. Training samples never repeat, and evaluation samples differ from them.
class SyntheticNoise final : public Dataset {
 public:
  struct Options {
    std::int64_t num_samples = 0;  // samples per pass
    std::int64_t size = 0, channels = 0;
    std::int64_t condition_vectors = 0, condition_width = 0;  // 0: no condition
    std::int64_t num_classes = 0;                             // 0: no classes
    std::uint64_t seed = 0;
  };
  /// Throws Error(kInvalidInput) when the number of samples, pixels or channels is not positive.
  explicit SyntheticNoise(const Options& options);

  std::int64_t num_samples() const override { return options_.num_samples; }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::int64_t samples_per_read() const override { return 1; }

 private:
  HostBatch make(std::int64_t first, std::int64_t count, std::uint32_t set) const;

  Options options_;
};

}  // namespace trireme
