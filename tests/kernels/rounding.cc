#include "tests/kernels/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::testing {

const Format& format_of(DType dtype) {
  return dtype == DType::kFloat16 ? kFp16 : kBf16;
}

float rounded(float x, const Format& f) {
  if (x == 0.0f || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int step = std::max(exponent - 1, f.min_exponent) - f.mantissa_bits;
  // std::nearbyint rounds ties to even.
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(double{x}, -step)), step);
  if (std::fabs(nearest) > f.largest) return std::copysign(std::numeric_limits<float>::infinity(), x);
  return static_cast<float>(nearest);
}

float rounded(float x, DType dtype) {
  return dtype == DType::kFloat32 ? x : rounded(x, format_of(dtype));
}

std::vector<float> rounded(std::vector<float> values, DType dtype) {
  for (float& value : values) value = rounded(value, dtype);
  return values;
}

std::vector<float> rounded(std::vector<float> values, const Format& format) {
  for (float& value : values) value = rounded(value, format);
  return values;
}

double unit_roundoff(DType dtype) {
  return std::ldexp(1.0, dtype == DType::kFloat32 ? -24 : -1 - format_of(dtype).mantissa_bits);
}

double half_smallest_step(DType dtype) {
  const Format& f = format_of(dtype);
  return std::ldexp(1.0, f.min_exponent - f.mantissa_bits - 1);
}

std::uint16_t bits_of(float x, DType dtype) {
  const Format& f = format_of(dtype);
  const int sign = std::signbit(x) ? 0x8000 : 0, one = 1 << f.mantissa_bits;
  const int infinity = 0x8000 - one;
  if (std::isnan(x)) return static_cast<std::uint16_t>(infinity | one >> 1 | sign);
  if (std::isinf(x)) return static_cast<std::uint16_t>(infinity | sign);
  if (x == 0.0f) return static_cast<std::uint16_t>(sign);
  int exponent = 0;
  std::frexp(x, &exponent);
  exponent = std::max(exponent - 1, f.min_exponent);
  const int mantissa = static_cast<int>(std::ldexp(std::fabs(x), f.mantissa_bits - exponent));
  // Denormals have no leading one, and the smallest normal has exponent field 1.
  return static_cast<std::uint16_t>(sign | ((exponent - f.min_exponent) * one + mantissa));
}

float value_of(std::uint16_t bits, DType dtype) {
  const Format& f = format_of(dtype);
  const int one = 1 << f.mantissa_bits, field = (bits & 0x7FFF) / one, fraction = bits & (one - 1);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if ((bits & 0x7FFF) >= 0x8000 - one) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  const int mantissa = field == 0 ? fraction : one + fraction;
  return sign *
         std::ldexp(static_cast<float>(mantissa), std::max(field, 1) - 1 + f.min_exponent - f.mantissa_bits);
}

}  // namespace trireme::testing
