#include "runtime/diffusion/denoising.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/diffusion/noise_draws.h"

namespace trireme {
namespace {

constexpr std::int64_t kTimesteps = NoiseSchedule::kNumTimesteps;

std::vector<std::int64_t> timesteps_of(const DenoisingOptions& options) {
  std::vector<std::int64_t> timesteps;
  const std::int64_t steps = options.num_steps;
  for (std::int64_t i = steps; i-- > 0;) {
    if (options.method == DenoisingMethod::kDpmSolver) {
      const double place = static_cast<double>((i + 1) * (kTimesteps - 1)) / static_cast<double>(steps);
      timesteps.push_back(static_cast<std::int64_t>(std::nearbyint(place)));
    } else {
      timesteps.push_back(i * (kTimesteps / steps) + options.steps_offset);
    }
  }
  return timesteps;
}

// The log of signal over noise, half the log of the signal-to-noise ratio.
double lambda_of(double alpha_product) {
  return 0.5 * std::log(alpha_product / (1 - alpha_product));
}

}  // namespace

/// x' = of_x x + of_sample x_0 + of_previous (x_0 of the step before) + of_epsilon e + of_noise noise.
struct Denoising::Coefficients {
  double of_x = 0, of_sample = 0, of_previous = 0, of_epsilon = 0, of_noise = 0;
};

Denoising::Denoising(const NoiseSchedule& schedule, const DenoisingOptions& options)
    : schedule_(schedule), options_(options) {
  TRIREME_CHECK(options.num_steps >= 1 && options.num_steps <= kTimesteps,
                "a sampler takes 1 to {} steps, not {}", kTimesteps, options.num_steps);
  timesteps_ = timesteps_of(options);
  TRIREME_CHECK(options.steps_offset >= 0 && timesteps_.front() < kTimesteps,
                "{} steps with steps_offset = {} begin at timestep {} of {}: take fewer steps",
                options.num_steps, options.steps_offset, timesteps_.front(), kTimesteps);
}

double Denoising::next_alpha_product(std::size_t index) const {
  if (options_.method == DenoisingMethod::kDdim) {
    // As in diffusers, whose next timestep is a number of timesteps away.
    const std::int64_t next = timesteps_[index] - kTimesteps / options_.num_steps;
    if (next < 0) return options_.set_alpha_to_one ? 1.0 : schedule_.alpha_product(0);
    return schedule_.alpha_product(next);
  }
  return index + 1 < timesteps_.size() ? schedule_.alpha_product(timesteps_[index + 1]) : 1.0;
}

Denoising::Coefficients Denoising::coefficients_of(std::size_t index) const {
  const double here = schedule_.alpha_product(timesteps_[index]), next = next_alpha_product(index);
  if (options_.method == DenoisingMethod::kDdim) {
    return {.of_sample = std::sqrt(next), .of_epsilon = std::sqrt(1 - next)};
  }
  if (options_.method == DenoisingMethod::kDdpm) {
    const double alpha = here / next, beta = 1 - alpha;
    const double variance = std::max((1 - next) / (1 - here) * beta, 1e-20);
    return {.of_x = std::sqrt(alpha) * (1 - next) / (1 - here),
            .of_sample = std::sqrt(next) * beta / (1 - here),
            .of_noise = timesteps_[index] > 0 ? std::sqrt(variance) : 0};
  }
  if (index + 1 == timesteps_.size()) return {.of_sample = 1};
  const double step = lambda_of(next) - lambda_of(here);
  const double of_sample = -std::sqrt(next) * std::expm1(-step);
  Coefficients coefficients{.of_x = std::sqrt((1 - next) / (1 - here)), .of_sample = of_sample};
  if (index == 0) return coefficients;
  const double before = lambda_of(here) - lambda_of(schedule_.alpha_product(timesteps_[index - 1]));
  const double slope = 0.5 * of_sample * step / before;
  coefficients.of_sample += slope;
  coefficients.of_previous = -slope;
  return coefficients;
}

void Denoising::step(std::size_t index, std::span<const float> prediction, std::span<const float> noise,
                     std::span<float> x) {
  TRIREME_CHECK(prediction.size() == x.size() && (!takes_noise() || noise.size() == x.size()),
                "a step of {} numbers got {} predictions and {} numbers of noise", x.size(),
                prediction.size(), noise.size());
  const auto timestep = timesteps_.at(index);
  const double signal = schedule_.signal(timestep), spread = schedule_.noise(timestep);
  const Coefficients c = coefficients_of(index);
  const bool clips = options_.clips && options_.method != DenoisingMethod::kDpmSolver;
  previous_.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i], predicted = prediction[i];
    double sample = predicted, epsilon = predicted;
    switch (options_.prediction) {
      case DiffusionTarget::kNoise:
        sample = (at - spread * predicted) / signal;
        break;
      case DiffusionTarget::kSample:
        epsilon = (at - signal * predicted) / spread;
        break;
      case DiffusionTarget::kVelocity:
        sample = signal * at - spread * predicted;
        epsilon = signal * predicted + spread * at;
        break;
    }
    if (clips) sample = std::clamp(sample, -1.0, 1.0);
    double moved = c.of_x * at + c.of_sample * sample + c.of_epsilon * epsilon;
    if (c.of_previous != 0) moved += c.of_previous * previous_[i];
    if (c.of_noise != 0) moved += c.of_noise * noise[i];
    previous_[i] = static_cast<float>(sample);
    x[i] = static_cast<float>(moved);
  }
}

std::vector<float> denoise(const NoiseSchedule& schedule, const DenoisingOptions& options,
                           const Denoiser& predict, std::uint64_t seed, std::int64_t first,
                           std::int64_t count, std::int64_t elems,
                           const std::function<void(std::size_t step)>& on_step) {
  Denoising denoising(schedule, options);
  const auto size = static_cast<std::size_t>(elems);
  std::vector<float> x(static_cast<std::size_t>(count) * size), noise(denoising.takes_noise() ? x.size() : 0);
  // The starting noise of a sample has the draw 0, and the noise of step i the draw i + 1.
  const auto draw = [&](std::uint64_t number, std::vector<float>& out) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      fill_normal({.stream = NoiseStream::kGenerated,
                   .seed = seed,
                   .index = number << 32 | (static_cast<std::uint64_t>(first) + i)},
                  {out.data() + i * size, size});
    }
  };
  draw(0, x);
  for (std::size_t step = 0; step < denoising.timesteps().size(); ++step) {
    const std::vector<float> prediction = predict(x, denoising.timesteps()[step]);
    if (denoising.takes_noise()) draw(step + 1, noise);
    denoising.step(step, prediction, noise, x);
    if (on_step) on_step(step);
  }
  return x;
}

std::vector<float> guided(std::span<const float> with, std::span<const float> without, double scale) {
  std::vector<float> result(with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    result[i] = static_cast<float>(without[i] + scale * (with[i] - without[i]));
  }
  return result;
}

}  // namespace trireme
