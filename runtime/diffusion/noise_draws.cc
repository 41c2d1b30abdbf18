#include "runtime/diffusion/noise_draws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace trireme {

void fill_normal(const NoiseKey& key, std::span<float> out) {
  constexpr double kUnit = 1.0 / 4294967296.0;
  std::uint32_t group = 0;
  for (std::size_t first = 0; first < out.size(); first += 4, ++group) {
    const Philox4 words = key.words(group);
    std::array<float, 4> four;
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(words[pair]) + 0.5) * kUnit)),
                   angle = 2.0 * std::numbers::pi * static_cast<double>(words[pair + 1]) * kUnit;
      four[pair] = static_cast<float>(radius * std::cos(angle));
      four[pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
    std::copy_n(four.begin(), std::min<std::size_t>(4, out.size() - first), out.begin() + first);
  }
}

}  // namespace trireme
