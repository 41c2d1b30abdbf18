// fp8 codes of tensors, and back: see [Note: fp8].
#include <algorithm>
#include <cmath>
#include <optional>

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
void encode_all(const KernelContext& exec, ConstTensorView x, std::uint8_t* codes, const Encode& encode) {
  for_each_range(exec, x.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    const float* values = read(x, first, count, buffer);
    for (std::int64_t i = 0; i < count; ++i) codes[first + i] = encode(values[i]);
  });
}

// turned[col][row] = codes[row][col].
void turn_codes(const KernelContext& exec, const std::uint8_t* codes, std::int64_t rows, std::int64_t cols,
                std::uint8_t* turned) {
  constexpr std::int64_t kTile = 64;
  for_each_piece(exec, ceil_div(cols, kTile), rows * cols, [&](std::int64_t piece) {
    const std::int64_t last_col = std::min(cols, (piece + 1) * kTile);
    for (std::int64_t row = 0; row < rows; row += kTile) {
      const std::int64_t last_row = std::min(rows, row + kTile);
      for (std::int64_t c = piece * kTile; c < last_col; ++c) {
        for (std::int64_t r = row; r < last_row; ++r) turned[c * rows + r] = codes[r * cols + c];
      }
    }
  });
}

}  // namespace

bool is_fp8(DType dtype) {
  return dtype == DType::kE4m3 || dtype == DType::kE5m2;
}

void run_op(const KernelContext& exec, const QuantizeArgs& args) {
  const auto& [history, codes, turned, inverse_scale, amax] = args.out;
  check_one_float_type("quantize", {args.x});
  check_fp32("quantize", {history, inverse_scale, amax});
  const DType dtype = args.out.dtype();
  if (!is_fp8(dtype)) {
    throw Error(ErrorCode::kUnsupported, "quantize on cpu makes e4m3 and e5m2, not {}", name(dtype));
  }
  float reference = history.defined() ? fp8_reference(history.as<float>()) : 0.0f;
  if (reference == 0.0f || amax.defined()) {
    const float own = largest_magnitude(exec, args.x);
    if (reference == 0.0f) reference = own;
    if (amax.defined()) *amax.as<float>() = std::max(*amax.as<float>(), own);
  }
  const int exponent = fp8_scale_exponent(reference, fp8_format(dtype));
  *inverse_scale.as<float>() = power_of_two(-exponent);
  const float scale = power_of_two(exponent);
  std::optional<Workspace> separate;
  if (!codes.defined()) separate.emplace(exec, ceil_div(args.x.num_elems(), 4));
  auto* const to = separate ? reinterpret_cast<std::uint8_t*>(separate->data()) : codes.as<std::uint8_t>();
  if (dtype == DType::kE4m3) {
    encode_all(exec, args.x, to, [scale](float x) { return fp8_of(x * scale, kE4m3); });
  } else {
    encode_all(exec, args.x, to, [scale](float x) { return fp8_of(x * scale, kE5m2); });
  }
  if (turned.defined()) {
    turn_codes(exec, to, args.x.shape.num_rows(), args.x.shape.dim(-1), turned.as<std::uint8_t>());
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
