// half of CUDA C++ on the host: storage and conversions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

struct __half {
  std::uint16_t bits;
};

inline float __half2float(__half x) {
  const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  const float sign = x.bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
}

/// Rounds to nearest, ties to even.
inline __half __float2half_rn(float x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) return {0x7fff};
  if (magnitude >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // Units of the last place: 2^-24 below the smallest normal number, 2^(exponent - 11) above.
  const int unit = magnitude < std::ldexp(1.0f, -14) ? -24 : exponent - 11;
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A normal number has 1024 to 2048 units; 2048 carries into the exponent automatically.
  const int bits = unit == -24 ? units : (unit + 24) * 1024 + units;
  return {static_cast<std::uint16_t>(sign | bits)};
}
