// Random choices for an image, such as crop and mixture (see [Note: random numbers]). They depend only on
// (seed, epoch, image) and the order of the draws, so every worker and every rank makes the same ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "runtime/base/rng.h"

namespace trireme {

/// One stream of draws. A copy starts at the same position and draws the same numbers.
class ImageRandom {
 public:
  /// Values of the last counter word, distinct from the values that ops and the sample order use.
  enum class Stream : std::uint32_t {
    kView = 0xFFFF0020u,
    kMix = 0xFFFF0021u,
    kSynthetic = 0xFFFF0022u,
    kSide = 0xFFFF0023u
  };

  ImageRandom(Stream stream, std::uint64_t seed, std::uint32_t epoch, std::uint32_t index)
      : counter_{0, index, epoch, static_cast<std::uint32_t>(stream)},
        key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  /// In [0, 1).
  double uniform() { return static_cast<double>(word()) * (1.0 / 4294967296.0); }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, bound).
  int below(int bound) { return static_cast<int>(uniform() * bound); }
  /// Standard normal (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::uint32_t word() {
    if (used_ == 4) {
      words_ = philox4x32(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return words_[used_++];
  }

  Philox4 counter_;
  std::array<std::uint32_t, 2> key_;
  Philox4 words_{};
  std::size_t used_ = 4;
};

}  // namespace trireme
