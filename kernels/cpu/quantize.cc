// fp8 codes of tensors, and back: see [Note: fp8].
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/quantize.h"
#include "runtime/base/error.h"
#include "runtime/base/fp8.h"

namespace trireme::cpu {
namespace {

float largest_magnitude(const KernelContext& exec, ConstTensorView x) {
  const Workspace maxima(exec, std::max<std::int64_t>(1, ceil_div(x.num_elems(), kBuffer)));
  for_each_range(exec, x.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    const float* values = read(x, first, count, buffer);
    float largest = 0.0f;
    for (std::int64_t i = 0; i < count; ++i) {
      const float magnitude = std::fabs(values[i]);
      largest = magnitude > largest ? magnitude : largest;  // NaN is no maximum
    }
    maxima.data()[first / kBuffer] = largest;
  });
  float largest = 0.0f;
  for (std::int64_t i = 0; i < ceil_div(x.num_elems(), kBuffer); ++i) {
    largest = std::max(largest, maxima.data()[i]);
  }
  return largest;
}

template <class Encode>
void encode_all(const KernelContext& exec, const QuantizeArgs& args, const Encode& encode) {
  for_each_range(exec, args.x.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    const float* values = read(args.x, first, count, buffer);
    std::uint8_t* codes = args.y.as<std::uint8_t>() + first;
    for (std::int64_t i = 0; i < count; ++i) codes[i] = encode(values[i]);
  });
}

}  // namespace

bool is_fp8(DType dtype) {
  return dtype == DType::kE4m3 || dtype == DType::kE5m2;
}

void run_op(const KernelContext& exec, const QuantizeArgs& args) {
  check_one_float_type("quantize", {args.x});
  check_fp32("quantize", {args.history, args.inverse_scale, args.amax});
  assert(args.x.num_elems() == args.y.num_elems());
  if (!is_fp8(args.y.dtype)) {
    throw Error(ErrorCode::kUnsupported, "quantize on cpu makes e4m3 and e5m2, not {}", name(args.y.dtype));
  }
  float reference = args.history.defined() ? fp8_reference(args.history.as<float>()) : 0.0f;
  if (reference == 0.0f || args.amax.defined()) {
    const float amax = largest_magnitude(exec, args.x);
    if (reference == 0.0f) reference = amax;
    if (args.amax.defined()) *args.amax.as<float>() = std::max(*args.amax.as<float>(), amax);
  }
  const int exponent = fp8_scale_exponent(reference, fp8_format(args.y.dtype));
  *args.inverse_scale.as<float>() = power_of_two(-exponent);
  const float scale = power_of_two(exponent);
  if (args.y.dtype == DType::kE4m3) {
    encode_all(exec, args, [scale](float x) { return fp8_of(x * scale, kE4m3); });
  } else {
    encode_all(exec, args, [scale](float x) { return fp8_of(x * scale, kE5m2); });
  }
}

void dequantize(const KernelContext& exec, ConstTensorView codes, float inverse_scale, std::uint16_t* bf16) {
  const Fp8Format format = fp8_format(codes.dtype);
  std::uint16_t table[256];
  for (int code = 0; code < 256; ++code) {
    const float value = float_of_fp8(static_cast<std::uint8_t>(code), format) * inverse_scale;
    table[code] = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16);
  }
  for_each_range(exec, codes.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    const std::uint8_t* from = codes.as<std::uint8_t>() + first;
    for (std::int64_t i = 0; i < count; ++i) bf16[first + i] = table[from[i]];
  });
}

}  // namespace trireme::cpu
