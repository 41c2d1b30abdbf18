// exp, log and functions built on them, without branches or calls, so that the compiler vectorises loops over
// them. The relative error is below 2 ulp over the whole range. Overflow gives infinity, and NaN stays NaN.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa/vector_group.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// Clamps x to the range outside which e^x is 0 or infinite anyway. Not std::min, because NaN must stay NaN.
template <class T>
inline T held(T x) {
  x = x > 89.0f ? T{} + 89.0f : x;
  return x < -105.0f ? T{} - 105.0f : x;
}

constexpr float kLn2High = 0.693145751953125f;  // ln 2 in two parts
constexpr float kLn2Low = 1.42860682030941723e-6f;

/// The clamped x as n ln 2 + r with |r| <= ln 2 / 2, for a float or a vector.
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

/// e^x. 2^n is applied in two factors, which covers n = 128 and denormal results.
inline float exp_approx(float x) {
  const auto [shifted, n, r] = split_exponent(held(x));
  const std::int32_t n_int =
      static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, shifted) - 0x4B400000u);
  const std::int32_t half = n_int >> 1;
  const float scale1 = __builtin_bit_cast(float, static_cast<std::uint32_t>(half + 127) << 23);
  const float scale2 = __builtin_bit_cast(float, static_cast<std::uint32_t>(n_int - half + 127) << 23);
  return exp_of_remainder(r) * scale1 * scale2;
}

/// p * 2^n, with n in the form of split_exponent.
inline Vector scaled(Vector p, [[maybe_unused]] Vector shifted, [[maybe_unused]] Vector n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(kAllLanes, p, n);
#else
  const Ints n_int = reinterpret_cast<Ints>(shifted) - 0x4B400000;
  const Ints half = n_int >> 1;
  return p * reinterpret_cast<Vector>((half + 127) << 23) *
         reinterpret_cast<Vector>((n_int - half + 127) << 23);
#endif
}

/// e^x of vectors for x below 88, where nothing overflows. Same bits as exp_approx; NaN stays NaN.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> exp_below(const VectorGroup<kCount>& x) {
  const auto parts =
      split_exponent(group_of<kCount>([&](int i) { return larger(Vector{} - 105.0f, x.v[i]); }));
  const auto p = exp_of_remainder(parts.r);
  return group_of<kCount>([&](int i) { return scaled(p.v[i], parts.shifted.v[i], parts.n.v[i]); });
}

inline Vector exp_below(Vector x) {
  return exp_below(VectorGroup<1>{{x}}).v[0];
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

/// 1 / x for 1 <= x < 2^100; NaN stays NaN.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> reciprocal(const VectorGroup<kCount>& x) {
#if defined(__AVX512F__)
  // The estimate is within 2^-14, and one Newton step improves it to 2^-28.
  const auto estimate = group_of<kCount>([&](int i) { return _mm512_maskz_rcp14_ps(kAllLanes, x.v[i]); });
  const auto error = group_of<kCount>([&](int i) { return 1.0f - x.v[i] * estimate.v[i]; });
  return estimate + estimate * error;
#else
  return group_of<kCount>([&](int i) { return 1.0f / x.v[i]; });
#endif
}

// gelu_tanh(x) = 0.5 x (1 + tanh(u)) = x sigmoid(2 u), 2 u = x (kGelu1 + kGelu3 x^2).
constexpr float kGelu1 = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float kGelu3 = kGelu1 * 0.044715f;

/// e^-|v|
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> exp_of_magnitude(const VectorGroup<kCount>& v) {
  constexpr std::int32_t kSignBit = INT32_MIN;
  return exp_below(group_of<kCount>(
      [&](int i) { return reinterpret_cast<Vector>(reinterpret_cast<Ints>(v.v[i]) | kSignBit); }));
}

// sigmoid(v) and sigmoid(-v) are 1 / (1 + t) and t / (1 + t) with t = e^-|v| <= 1: nothing overflows.

template <int kCount>
struct Sigmoids {
  VectorGroup<kCount> of_x, of_minus_x;
};
template <int kCount>
[[gnu::always_inline]] inline Sigmoids<kCount> sigmoids(const VectorGroup<kCount>& x) {
  const auto t = exp_of_magnitude(x);
  const auto larger_one = reciprocal(t + 1.0f), smaller_one = t * larger_one;
  const auto pick = [&](const auto& below_zero, const auto& other) {
    return group_of<kCount>([&](int i) { return x.v[i] < 0.0f ? below_zero.v[i] : other.v[i]; });
  };
  return {.of_x = pick(smaller_one, larger_one), .of_minus_x = pick(larger_one, smaller_one)};
}

/// x sigmoid(x); NaN for -infinity.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> silu(const VectorGroup<kCount>& x) {
  return x * sigmoids(x).of_x;
}

/// For finite x; NaN elsewhere.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> silu_derivative(const VectorGroup<kCount>& x) {
  const auto sigmoid = sigmoids(x);
  return sigmoid.of_x + x * sigmoid.of_x * sigmoid.of_minus_x;
}

/// (1 - t) / (1 + t) with t = e^-2|x|. Near 0, where that cancels, uses Cephes' polynomial (Moshier 1989).
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> tanh(const VectorGroup<kCount>& x) {
  constexpr float kNear = 0.625f;
  const auto t = exp_of_magnitude(x + x);
  const auto magnitude = (t * -1.0f + 1.0f) * reciprocal(t + 1.0f);
  return group_of<kCount>([&](int i) {
    const Vector v = x.v[i], square = v * v;
    Vector p = square * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const Vector near = p * square * v + v;
    const Vector far = v < 0.0f ? -magnitude.v[i] : magnitude.v[i];
    return square < kNear * kNear ? near : far;
  });
}

/// 1 - tanh(x)^2 = 4 t / (1 + t)^2.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> tanh_derivative(const VectorGroup<kCount>& x) {
  const auto t = exp_of_magnitude(x + x);
  const auto inverse = reciprocal(t + 1.0f);
  return t * 4.0f * inverse * inverse;
}

template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> gelu_tanh(const VectorGroup<kCount>& x) {
  const auto t = exp_of_magnitude(x * (x * kGelu3 * x + kGelu1));
  const auto one_side = reciprocal(t + 1.0f);
  return group_of<kCount>([&](int i) { return x.v[i] < 0.0f ? x.v[i] * t.v[i] : x.v[i]; }) * one_side;
}

/// For finite x; NaN elsewhere.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> gelu_tanh_derivative(const VectorGroup<kCount>& x) {
  constexpr float kFlat = 256.0f;  // x^2 beyond which the derivative is 0 or 1
  const auto square = group_of<kCount>([&](int i) { return smaller(Vector{} + kFlat, x.v[i] * x.v[i]); });
  const auto t = exp_of_magnitude(x * (square * kGelu3 + kGelu1));
  const auto one_side = reciprocal(t + 1.0f);
  const auto other_side = t * one_side;
  const auto slope = one_side * (square * (3.0f * kGelu3) + kGelu1);
  return group_of<kCount>([&](int i) { return x.v[i] < 0.0f ? other_side.v[i] : one_side.v[i]; }) +
         x * other_side * slope;
}

/// Two values of the normal distribution: Phi(-|x|), and e^(-x^2 / 2), which is sqrt(2 pi) times its density.
template <int kCount>
struct NormalTail {
  VectorGroup<kCount> tail, bell;
};
// With z = |x| / sqrt(2) and t = 1 / (1 + 0.3 z), Phi(-|x|) = erfc(z) / 2 = e^(-z^2) t q(t). q has degree 8
// and the smallest relative error, 2e-8, for z <= 10. The remaining error is the round-off of the exponent.
template <int kCount>
[[gnu::always_inline]] inline NormalTail<kCount> normal_tail(const VectorGroup<kCount>& x) {
  constexpr float kFlat = 16.0f;  // x beyond which both are 0
  constexpr std::int32_t kAllButSign = INT32_MAX;
  const auto magnitude = group_of<kCount>([&](int i) {
    return smaller(Vector{} + kFlat, reinterpret_cast<Vector>(reinterpret_cast<Ints>(x.v[i]) & kAllButSign));
  });
  const auto bell = exp_below(magnitude * magnitude * -0.5f);
  const auto t = reciprocal(magnitude * 0.212132034f + 1.0f);
  auto q = t * -0.0647613854f + 0.242781284f;
  q = q * t - 0.256138393f;
  q = q * t + 0.273859284f;
  q = q * t - 0.0473248696f;
  q = q * t + 0.107462825f;
  q = q * t + 0.0741696359f;
  q = q * t + 0.0853576066f;
  q = q * t + 0.084594003f;
  return {.tail = bell * t * q, .bell = bell};
}

/// x Phi(x).
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> gelu(const VectorGroup<kCount>& x) {
  const auto normal = normal_tail(x);
  return x *
         group_of<kCount>([&](int i) { return x.v[i] < 0.0f ? normal.tail.v[i] : 1.0f - normal.tail.v[i]; });
}

/// Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi), for finite x; NaN elsewhere.
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> gelu_derivative(const VectorGroup<kCount>& x) {
  constexpr float kDensityAtZero = 0.3989422804f;  // 1 / sqrt(2 pi)
  const auto normal = normal_tail(x);
  return x * kDensityAtZero * normal.bell +
         group_of<kCount>([&](int i) { return x.v[i] < 0.0f ? normal.tail.v[i] : 1.0f - normal.tail.v[i]; });
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
