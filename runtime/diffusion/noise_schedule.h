// The noise schedule of a diffusion process: the share of signal and noise at each of its timesteps.
//
// [Note: diffusion] A sample x_0 becomes x_t = signal(t) x_0 + noise(t) e at timestep t, with standard normal
// noise e, signal(t)^2 = the product of (1 - beta_s) over s <= t, and signal^2 + noise^2 = 1 (Ho et al.
// 2020). The network predicts one of three targets from (x_t, t): e, x_0, or v = signal e - noise x_0
// (Salimans and Ho 2022). Each determines the others.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace trireme {

/// The quantity that the network predicts.
enum class DiffusionTarget : std::uint8_t { kNoise, kVelocity, kSample };

class NoiseSchedule {
 public:
  static constexpr std::int64_t kNumTimesteps = 1000;
  enum class Kind : std::uint8_t {
    kLinear,        // betas from first to last in equal steps
    kScaledLinear,  // their square roots in equal steps (latent diffusion)
    kCosine,        // signal^2 is a squared cosine, with betas of at most 0.999 (Nichol and Dhariwal 2021)
  };
  struct Options {
    Kind kind = Kind::kLinear;
    std::array<double, 2> betas = {0, 0};  // first and last; 0: default_betas(). kCosine has none
  };
  /// 1e-4 and 0.02 for kLinear, 0.00085 and 0.012 for kScaledLinear, 0 and 0 for kCosine.
  static std::array<double, 2> default_betas(Kind kind);

  /// Throws Error(kInvalidInput) unless 0 <= first <= last < 1.
  explicit NoiseSchedule(const Options& options);

  /// The product of (1 - beta_s) over s <= t, for t in [0, kNumTimesteps).
  double alpha_product(std::int64_t timestep) const;
  double signal(std::int64_t timestep) const;  // its square root
  double noise(std::int64_t timestep) const;   // the square root of 1 minus the product
  double beta(std::int64_t timestep) const;
  /// signal^2 / noise^2.
  double signal_to_noise(std::int64_t timestep) const;

  /// Weight of a squared error of `target` (Hang et al. 2023): min(SNR, gamma) in units of x_0, divided by
  /// SNR for kNoise and by SNR + 1 for kVelocity. 1 if gamma is 0.
  double min_snr_weight(std::int64_t timestep, double gamma, DiffusionTarget target) const;

 private:
  std::vector<double> betas_, alpha_products_;
};

}  // namespace trireme
