// Clean samples with noise added, as training and evaluation samples of a denoising network.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/diffusion/noise_schedule.h"

namespace trireme {

/// Reads clean samples x_0 (inputs [B, H, W, C] fp32, labels [B], perhaps a condition) and returns inputs
/// x_t, timesteps [B], number_targets and target_weights [B]; see [Note: diffusion].
///
/// In training, timestep, noise and dropout are functions of the seed and the sample's index in training
/// order. In file order timestep and noise are functions of the sample's index alone, and the weight is 1.
/// Of ten consecutive samples of an evaluation, each has a timestep of another band. A sample with a negative
/// label was left out and has weight 0.
class NoisedSamples final : public Dataset {
 public:
  static constexpr std::int64_t kNumBands = 10;
  /// The tenth of the timesteps that holds `timestep`.
  static std::int64_t band_of(std::int64_t timestep) {
    return timestep * kNumBands / NoiseSchedule::kNumTimesteps;
  }

  struct Options {
    std::shared_ptr<const Dataset> samples;
    NoiseSchedule::Options schedule;
    DiffusionTarget target = DiffusionTarget::kNoise;
    double min_snr_gamma = 0;  // see NoiseSchedule::min_snr_weight
    /// Rows of the network's class table; 0: the network is not conditioned on classes. With class_dropout
    /// the last row stands for "no class".
    std::int64_t classes = 0;
    double class_dropout = 0;           // probability, in training, of no class and the null condition
    std::vector<float> null_condition;  // [L * D]; empty: zeros
    std::uint64_t seed = 0;
    std::int64_t num_evaluated = 0;  // samples of an evaluation, evenly spaced (SpreadSamples); 0: all
  };
  /// Throws Error(kInvalidInput) without samples, or if class_dropout is not in [0, 1).
  explicit NoisedSamples(Options options);

  std::int64_t num_samples() const override { return options_.samples->num_samples(); }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::int64_t samples_per_read() const override { return options_.samples->samples_per_read(); }
  std::vector<std::string> left_out() const override { return options_.samples->left_out(); }

 private:
  struct Draw {
    std::int64_t timestep = 0;
    bool drops_condition = false;
  };
  Draw draw_train(std::int64_t sample) const;
  std::int64_t eval_timestep(std::int64_t sample) const;
  HostBatch add_noise(HostBatch batch, std::int64_t first, bool training) const;
  void drop_condition(HostBatch& batch, std::size_t row) const;

  Options options_;
  NoiseSchedule schedule_;
  std::int64_t num_evaluated_ = 0;
};

}  // namespace trireme
