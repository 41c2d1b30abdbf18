// The random numbers of diffusion (see [Note: random numbers]): functions of a key and a position.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/rng.h"

namespace trireme {

/// Values of the last counter word, distinct from the values that ops, images and the sample order use.
enum class NoiseStream : std::uint32_t {
  kTrainDraws = 0xFFFF0030u,  // timestep and dropout of a sample
  kTrainNoise = 0xFFFF0031u,
  kEvalDraws = 0xFFFF0032u,
  kEvalNoise = 0xFFFF0033u,
  kGenerated = 0xFFFF0034u,  // noise of a generated picture
  kSynthetic = 0xFFFF0035u,
};

struct NoiseKey {
  NoiseStream stream = NoiseStream::kTrainNoise;
  std::uint64_t seed = 0;
  std::uint64_t index = 0;  // of the sample

  constexpr Philox4 words(std::uint32_t group) const {
    return philox4x32({group, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       static_cast<std::uint32_t>(stream)},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
};

/// Fills `out` with standard normal numbers (Box and Muller). A number depends on the key and its position.
void fill_normal(const NoiseKey& key, std::span<float> out);

}  // namespace trireme
