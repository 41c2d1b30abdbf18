#include "runtime/diffusion/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// [Nichol and Dhariwal 2021, equation 17], with their offset.
double squared_cosine(double time) {
  const double c = std::cos((time + 0.008) / 1.008 * std::numbers::pi / 2);
  return c * c;
}

}  // namespace

std::array<double, 2> NoiseSchedule::default_betas(Kind kind) {
  switch (kind) {
    case Kind::kLinear:
      return {1e-4, 0.02};
    case Kind::kScaledLinear:
      return {0.00085, 0.012};
    case Kind::kCosine:
      break;
  }
  return {0, 0};
}

NoiseSchedule::NoiseSchedule(const Options& options) {
  const std::array<double, 2> defaults = default_betas(options.kind);
  const double first = options.betas[0] > 0 ? options.betas[0] : defaults[0],
               last = options.betas[1] > 0 ? options.betas[1] : defaults[1];
  TRIREME_CHECK(first >= 0 && first <= last && last < 1,
                "a noise schedule's betas rise within [0, 1), and these are {} and {}", first, last);
  double product = 1;
  for (std::int64_t t = 0; t < kNumTimesteps; ++t) {
    const double part = static_cast<double>(t) / static_cast<double>(kNumTimesteps - 1);
    double beta = first + part * (last - first);
    if (options.kind == Kind::kScaledLinear) {
      beta = std::pow(std::sqrt(first) + part * (std::sqrt(last) - std::sqrt(first)), 2);
    } else if (options.kind == Kind::kCosine) {
      constexpr auto kSteps = static_cast<double>(kNumTimesteps);
      const auto here = static_cast<double>(t);
      beta = std::min(0.999, 1 - squared_cosine((here + 1) / kSteps) / squared_cosine(here / kSteps));
    }
    product *= 1 - beta;
    alpha_products_.push_back(product);
  }
}

double NoiseSchedule::alpha_product(std::int64_t timestep) const {
  TRIREME_CHECK(timestep >= 0 && timestep < kNumTimesteps, "timestep {} is not in [0, {})", timestep,
                kNumTimesteps);
  return alpha_products_[static_cast<std::size_t>(timestep)];
}

double NoiseSchedule::signal(std::int64_t timestep) const {
  return std::sqrt(alpha_product(timestep));
}

double NoiseSchedule::noise(std::int64_t timestep) const {
  return std::sqrt(1 - alpha_product(timestep));
}

double NoiseSchedule::signal_to_noise(std::int64_t timestep) const {
  return alpha_product(timestep) / (1 - alpha_product(timestep));
}

double NoiseSchedule::min_snr_weight(std::int64_t timestep, double gamma, DiffusionTarget target) const {
  if (gamma <= 0) return 1;
  const double snr = signal_to_noise(timestep), least = std::min(snr, gamma);
  switch (target) {
    case DiffusionTarget::kNoise:
      return least / snr;
    case DiffusionTarget::kVelocity:
      return least / (snr + 1);
    case DiffusionTarget::kSample:
      break;
  }
  return least;
}

}  // namespace trireme
