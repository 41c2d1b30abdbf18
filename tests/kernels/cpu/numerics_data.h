// Numbers for the tests of instruction sets, and their bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace trireme::cpu {

using Floats = std::vector<float>;

/// Uniform in [-factor, factor], fixed by `n`.
inline Floats random(std::int64_t n, float factor = 1.0f) {
  std::mt19937 generator(static_cast<std::mt19937::result_type>(n));
  std::uniform_real_distribution<float> uniform(-factor, factor);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = uniform(generator);
  return values;
}

/// The bits, with one value for all NaN.
inline std::vector<std::uint32_t> bits(const Floats& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (std::isnan(values[i])) bits[i] = 0x7FC00000;
  }
  return bits;
}

}  // namespace trireme::cpu
