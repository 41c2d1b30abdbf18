// Conversions between fp32 and the 16-bit types, by integer arithmetic, so that every machine rounds alike:
// to nearest, ties to even. Overflow gives infinity, NaN stays NaN, denormals are kept.
#include "kernels/cpu/isa/tables.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

inline std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

constexpr std::uint32_t kInfinity = 0x7F800000u;
constexpr std::uint32_t kHalf = 0x3F000000u;  // 0.5f, whose last bit is worth 2^-24, as fp16's denormals
constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
constexpr std::uint32_t kBeyondFp16 = 0x47800000u;      // 65536
constexpr std::uint32_t kRebias = 0x38000000u;          // (127 - 15) << 23

inline std::uint16_t fp16_of(float x) {
  const std::uint32_t bits = bits_of(x), magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t normal = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - kRebias) >> 13;
  const std::uint32_t denormal = bits_of(float_of(magnitude) + 0.5f) - kHalf;
  std::uint32_t result = magnitude < kSmallestNormal ? denormal : normal;
  result = magnitude >= kBeyondFp16 ? 0x7C00u : result;
  result = magnitude > kInfinity ? 0x7E00u : result;
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000u));
}

inline float float_of_fp16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFu, sign = (half & 0x8000u) << 16;
  const std::uint32_t normal = (magnitude << 13) + kRebias;
  const std::uint32_t denormal = bits_of(float_of(kHalf + magnitude) - 0.5f);
  std::uint32_t result = magnitude < 0x400u ? denormal : normal;
  result = magnitude >= 0x7C00u ? normal + kRebias : result;
  return float_of(result | sign);
}

inline std::uint16_t bf16_of(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > kInfinity ? nan : rounded);
}

void to_fp16(const float* x, std::uint16_t* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = fp16_of(x[i]);
}

void from_fp16(const std::uint16_t* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = float_of_fp16(x[i]);
}

void to_bf16(const float* x, std::uint16_t* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = bf16_of(x[i]);
}

void from_bf16(const std::uint16_t* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = float_of(static_cast<std::uint32_t>(x[i]) << 16);
}

}  // namespace

const CastNumerics cast_numerics{
    .to_fp16 = to_fp16, .from_fp16 = from_fp16, .to_bf16 = to_bf16, .from_bf16 = from_bf16};

}  // namespace trireme::cpu::TRIREME_ISA
