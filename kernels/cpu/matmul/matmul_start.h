// Initialises d for an fp32 product that has a residual.
#pragma once

#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/matmul/matmul_tiling.h"

namespace trireme::cpu {

inline void copy_rows(float* dst, std::int64_t dst_pitch, const float* src, std::int64_t src_pitch,
                      const Tile& t) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    std::memcpy(dst + i * dst_pitch, src + i * src_pitch, static_cast<std::size_t>(t.cols) * sizeof(float));
  }
}

/// True if the product starts from the residual (plus a bias), which requires that there is no activation.
/// The rule is the same whether the residual is `d` or another tensor, so aliasing changes no bits.
inline bool starts_from_residual(const MatmulArgs& args) {
  return args.residual.defined() && args.d.dtype == DType::kFloat32 && !args.pre_activation.defined() &&
         args.activation == Activation::kNone;
}

/// d_tile = residual + bias, or the residual alone. `pitch` applies to d and the residual.
inline void start_tile(const MatmulArgs& args, const Tile& t, std::int64_t pitch, float* d) {
  const float* bias = args.bias.defined() ? args.bias.as<float>() + t.col : nullptr;
  const float* residual = args.residual.as<float>() + t.row * pitch + t.col;
  if (bias == nullptr) {
    if (residual != d) copy_rows(d, pitch, residual, pitch, t);
    return;
  }
  for (std::int64_t i = 0; i < t.rows; ++i) {
    numerics().elementwise->add(residual + i * pitch, bias, d + i * pitch, t.cols);
  }
}

}  // namespace trireme::cpu
