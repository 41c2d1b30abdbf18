// exp, log and what is built from them, written so that the compiler turns a loop over them into vector code:
// no branches, no calls. Relative error below 2 ulp, over the whole range: overflow gives infinity, NaN stays
// NaN.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa/vector.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// x, held where e^x is neither 0 nor infinite by more than a little. NaN passes, so not by std::min.
template <class T>
inline T held(T x) {
  x = x > 89.0f ? T{} + 89.0f : x;
  return x < -105.0f ? T{} - 105.0f : x;
}

#if defined(__AVX512F__)
// All lanes are named where gcc 12 warns of the forms without a mask.
constexpr __mmask16 kAllLanes = 0xFFFF;

inline Vector held(Vector x) {  // NaN gives the second operand
  return _mm512_maskz_max_ps(kAllLanes, Vector{} - 105.0f,
                             _mm512_maskz_min_ps(kAllLanes, Vector{} + 89.0f, x));
}
#endif

constexpr float kLn2High = 0.693145751953125f;  // ln 2 in two parts
constexpr float kLn2Low = 1.42860682030941723e-6f;

/// x, held, as n ln 2 + r with |r| <= ln 2 / 2, of a float or of a vector.
template <class T>
struct ExpParts {
  T shifted;  // n in its lowest bits
  T n, r;
};

template <class T>
inline ExpParts<T> split_exponent(T x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const T shifted = x * kLog2E + kRound;
  const T n = shifted - kRound;
  return {shifted, n, (x - n * kLn2High) - n * kLn2Low};
}

/// e^r for |r| <= ln 2 / 2: 1 + r + r^2 q(r), with the q of smallest relative error (3.1e-9).
template <class T>
inline T exp_of_remainder(T r) {
  T p = r * 0.001381454f + 0.008368745f;
  p = p * r + 0.04166839f;
  p = p * r + 0.16666521f;
  p = p * r + 0.49999994f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}

/// e^x: 2^n in two factors, so that n = 128 and denormal results need no case of their own.
inline float exp_approx(float x) {
  const auto [shifted, n, r] = split_exponent(held(x));
  const std::int32_t n_int =
      static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, shifted) - 0x4B400000u);
  const std::int32_t half = n_int >> 1;
  const float scale1 = __builtin_bit_cast(float, static_cast<std::uint32_t>(half + 127) << 23);
  const float scale2 = __builtin_bit_cast(float, static_cast<std::uint32_t>(n_int - half + 127) << 23);
  return exp_of_remainder(r) * scale1 * scale2;
}

inline Vector scaled_exp(const ExpParts<Vector>& parts) {
  const auto [shifted, n, r] = parts;
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(kAllLanes, exp_of_remainder(r), n);
#else
  const Ints n_int = reinterpret_cast<Ints>(shifted) - 0x4B400000;
  const Ints half = n_int >> 1;
  return exp_of_remainder(r) * reinterpret_cast<Vector>((half + 127) << 23) *
         reinterpret_cast<Vector>((n_int - half + 127) << 23);
#endif
}

/// The same for a vector, with the same bits.
inline Vector exp_approx(Vector x) {
  return scaled_exp(split_exponent(held(x)));
}

/// The same for x below 88, where nothing overflows; NaN stays NaN.
inline Vector exp_below(Vector x) {
  return scaled_exp(split_exponent(larger(Vector{} - 105.0f, x)));
}

/// log x of positive normal numbers, infinity and NaN: n ln 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2),
/// with log(1 + f) = f - f^2 / 2 + f^3 q(f) and the q of smallest relative error (5.8e-9).
inline Vector log_approx(Vector x) {
  const Ints word = reinterpret_cast<Ints>(x);
  const Ints n = (word - 0x3F3504F3) >> 23;  // from the bits of sqrt(1/2)
  const Vector n_float = __builtin_convertvector(n, Vector);
  const Vector f = reinterpret_cast<Vector>(word - (n << 23)) - 1.0f;
  Vector q = f * -0.076356575f + 0.12763329f;
  q = q * f - 0.13160582f;
  q = q * f + 0.14201553f;
  q = q * f - 0.16623299f;
  q = q * f + 0.20001234f;
  q = q * f - 0.25000823f;
  q = q * f + 0.3333333f;
  const Vector square = f * f;
  const Vector small = q * f * square - 0.5f * square;
  const Vector log = n_float * kLn2High + (n_float * kLn2Low + small + f);
  return x < __builtin_inff() ? log : x;
}

// Of a float or of a vector.

/// 1 / (1 + e^-x).
template <class T>
inline T sigmoid(T x) {
  return 1.0f / (1.0f + exp_approx(-x));
}

// gelu(x) = 0.5 x (1 + tanh(u)) = x sigmoid(2 u), 2 u = x (kGelu1 + kGelu3 x^2).
constexpr float kGelu1 = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float kGelu3 = kGelu1 * 0.044715f;

template <class T>
inline T gelu(T x) {
  return x * sigmoid(x * (kGelu1 + kGelu3 * x * x));
}

template <class T>
inline T gelu_derivative(T x) {
  const T square = x * x;
  const T s = sigmoid(x * (kGelu1 + kGelu3 * square));
  return s + x * s * (1.0f - s) * (kGelu1 + 3.0f * kGelu3 * square);
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
