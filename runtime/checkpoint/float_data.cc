#include "runtime/checkpoint/float_data.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr FloatFormat kFormats[] = {
    {DType::kFloat32, "F32", "float32", std::numeric_limits<float>::infinity()},
    {DType::kFloat16, "F16", "float16", 65520.0f},
    {DType::kBFloat16, "BF16", "bfloat16", 0x1.FFp127f},
};

constexpr std::uint32_t kRebias = (127 - 15) << 23;  // difference of the exponent biases of fp32 and fp16
constexpr std::uint32_t kSmallestNormal = kRebias + (1 << 23);  // the smallest normal fp16, as fp32
constexpr std::uint32_t kBeyondFp16 = 0x47800000u;              // 65536
constexpr std::uint32_t kInfinity = 0x7F800000u;
constexpr float kDenormalUnit = 0x1p-24f;

float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

float float_of_fp16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFu, sign = (bits & 0x8000u) << 16;
  if (magnitude < 0x400u) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * kDenormalUnit) |
                                sign);
  }
  const std::uint32_t special = magnitude >= 0x7C00u ? kRebias : 0;  // infinity and NaN
  return std::bit_cast<float>(((magnitude << 13) + kRebias + special) | sign);
}

/// `word` without its last `dropped` bits, rounded to nearest, ties to even.
std::uint32_t rounded(std::uint32_t word, int dropped) {
  return (word + ((1u << (dropped - 1)) - 1) + ((word >> dropped) & 1u)) >> dropped;
}

std::uint16_t bf16_of(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const bool nan = (word & 0x7FFFFFFFu) > kInfinity;
  return static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : rounded(word, 16));
}

std::uint16_t fp16_of(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = word & 0x7FFFFFFFu, sign = (word >> 16) & 0x8000u;
  std::uint32_t result;
  if (magnitude > kInfinity) {
    result = 0x7E00u;
  } else if (magnitude >= kBeyondFp16) {
    result = 0x7C00u;
  } else if (magnitude >= kSmallestNormal) {
    result = rounded(magnitude - kRebias, 13);
  } else {  // one unit of the denormals equals the last bit of the sum
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  }
  return static_cast<std::uint16_t>(result | sign);
}

}  // namespace

const FloatFormat& float_format(DType dtype) {
  const auto* found = std::ranges::find(kFormats, dtype, &FloatFormat::dtype);
  if (found == std::end(kFormats)) throw Error(ErrorCode::kUnsupported, "{} holds no floats", name(dtype));
  return *found;
}

bool is_float_data(const SafetensorsEntry& entry) {
  return std::ranges::find(kFormats, entry.dtype, &FloatFormat::safetensors_name) != std::end(kFormats);
}

void copy_as_floats(const SafetensorsTensor& tensor, std::uint64_t first, std::span<float> out) {
  if (out.empty()) return;
  if (tensor.dtype == "F32") {
    std::memcpy(out.data(), tensor.data.data() + first * sizeof(float), out.size_bytes());
    return;
  }
  const auto convert = tensor.dtype == "F16" ? float_of_fp16 : float_of_bf16;
  const std::byte* from = tensor.data.data() + first * sizeof(std::uint16_t);
  for (float& value : out) {
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    from += sizeof bits;
    value = convert(bits);
  }
}

void append_rounded(std::span<const float> values, DType dtype, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  out.resize(begin + values.size() * static_cast<std::size_t>(size_bytes(dtype)));
  std::byte* to = out.data() + begin;
  if (dtype == DType::kFloat32) {
    if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
    return;
  }
  const auto convert = dtype == DType::kFloat16 ? fp16_of : bf16_of;
  for (const float value : values) {
    const std::uint16_t bits = convert(value);
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
  }
}

}  // namespace trireme
