// The input rounding of tensor cores in NVIDIA's libraries, for the emulated libraries.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulation {

/// fp32 rounded to 10 mantissa bits, ties away from zero. Infinity and NaN stay.
inline double rounded_to_tf32(double value) {
  const auto x = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  if (!std::isfinite(x)) return x;
  bits = (bits + 0x1000u) & ~0x1fffu;
  float rounded = 0;
  std::memcpy(&rounded, &bits, sizeof rounded);
  return rounded;
}

}  // namespace emulation
