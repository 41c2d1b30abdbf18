// Mean loss of each tenth of the timesteps of a diffusion process.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/block.h"

namespace trireme {

/// The losses of an evaluation's samples. Sums run in the order of samples, so that they do not depend on the
/// layout.
class NoiseBands {
 public:
  explicit NoiseBands(std::int64_t num_samples);

  /// Adds a micro-batch whose first sample is `first`. Samples of weight 0 do not count. Waits for the
  /// device.
  void add(Context ctx, const Tensor& prediction, const Batch& batch, std::int64_t first);
  /// Collective: adds the samples of all ranks.
  void gather(Communicator& comm);

  /// One number for each band, from little to much noise; NaN for a band without samples.
  std::vector<double> means() const;
  /// Throws Error(kInvalidInput) if there are none.
  std::int64_t num_samples() const;

 private:
  std::vector<float> losses_, timesteps_;  // by sample; timestep -1: not added, or of weight 0
};

}  // namespace trireme
