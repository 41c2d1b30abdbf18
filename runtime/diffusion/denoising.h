// Samplers: they turn noise into samples with the predictions of a denoising network, step by step.
//
// Trajectories and timesteps equal diffusers' schedulers with the same names: DDPMScheduler and DDIMScheduler
// ("leading" timesteps), DPMSolverMultistepScheduler ("linspace").
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/diffusion/noise_schedule.h"

namespace trireme {

enum class DenoisingMethod : std::uint8_t {
  kDdpm,       // Ho et al. 2020, algorithm 2, with the smaller variance
  kDdim,       // Song et al. 2021, without noise
  kDpmSolver,  // DPM-Solver++ (2M), Lu et al. 2022
};

struct DenoisingOptions {
  DenoisingMethod method = DenoisingMethod::kDdim;
  std::int64_t num_steps = 50;
  DiffusionTarget prediction = DiffusionTarget::kNoise;
  bool clips = true;              // estimates of x_0 to [-1, 1], for pictures; not in kDpmSolver
  std::int64_t steps_offset = 0;  // added to the timesteps; not in kDpmSolver
  // kDdim: the last step removes all noise. Else it leaves the noise of timestep 0 (Stable Diffusion).
  bool set_alpha_to_one = true;
};

/// One trajectory. Values belong to one or several samples of any shape.
class Denoising {
 public:
  /// Throws Error(kInvalidInput) unless 1 <= num_steps <= NoiseSchedule::kNumTimesteps, and for a
  /// steps_offset with which the first timestep is beyond the last of the schedule.
  Denoising(const NoiseSchedule& schedule, const DenoisingOptions& options);

  /// One per step, falling.
  const std::vector<std::int64_t>& timesteps() const { return timesteps_; }
  /// True if step() reads noise.
  bool takes_noise() const { return options_.method == DenoisingMethod::kDdpm; }

  /// Advances `x` from timesteps()[index], where the network predicted `prediction`, to the next one; after
  /// the last step `x` is the sample. Steps are taken in order. `noise` is standard normal, or empty unless
  /// takes_noise(). The spans have the same size.
  void step(std::size_t index, std::span<const float> prediction, std::span<const float> noise,
            std::span<float> x);

 private:
  struct Coefficients;
  Coefficients coefficients_of(std::size_t index) const;
  double next_alpha_product(std::size_t index) const;

  NoiseSchedule schedule_;
  DenoisingOptions options_;
  std::vector<std::int64_t> timesteps_;
  std::vector<float> previous_;  // kDpmSolver: the estimate of x_0 one step before
};

/// Predicts the target for x_t at a timestep, of all samples at once.
using Denoiser = std::function<std::vector<float>(std::span<const float> x, std::int64_t timestep)>;

/// Samples [first, first + count) of `seed`, each of `elems` numbers. A sample does not depend on how many
/// are made at once, if the network's prediction does not. `on_step` is called after each step; may be null.
std::vector<float> denoise(const NoiseSchedule& schedule, const DenoisingOptions& options,
                           const Denoiser& predict, std::uint64_t seed, std::int64_t first,
                           std::int64_t count, std::int64_t elems,
                           const std::function<void(std::size_t step)>& on_step = {});

/// Classifier-free guidance (Ho and Salimans 2022): without + scale (with - without).
std::vector<float> guided(std::span<const float> with, std::span<const float> without, double scale);

}  // namespace trireme
