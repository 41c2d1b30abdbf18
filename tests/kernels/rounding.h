// The 16-bit types by definition, as a reference: slow, exact, and independent of every backend.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/dtype.h"

namespace trireme::testing {

/// A floating-point format: value = mantissa * 2^exponent.
struct Format {
  int mantissa_bits;  // without the leading one
  int min_exponent;   // of the smallest normal
  float largest;
};

inline constexpr Format kFp16{10, -14, 65504.0f};
inline constexpr Format kBf16{7, -126, 3.38953139e38f};
inline constexpr Format kTf32{10, -126, 3.40116213e38f};

/// The format of kFloat16 or kBFloat16.
const Format& format_of(DType dtype);

/// The nearest value in the format, ties to even; infinite beyond the largest. NaN stays NaN.
float rounded(float x, const Format& format);
/// Rounds to the dtype; kFloat32 changes nothing.
float rounded(float x, DType dtype);
std::vector<float> rounded(std::vector<float> values, DType dtype);
std::vector<float> rounded(std::vector<float> values, const Format& format);

/// The largest relative error of one rounding of a normal number: 2^-24, 2^-11 or 2^-8.
double unit_roundoff(DType dtype);
/// The largest error of one rounding of a number below the normal ones of a 16-bit dtype: 2^-25 or 2^-134.
double half_smallest_step(DType dtype);

/// The bits of a value that the 16-bit dtype represents exactly.
std::uint16_t bits_of(float x, DType dtype);
float value_of(std::uint16_t bits, DType dtype);

}  // namespace trireme::testing
