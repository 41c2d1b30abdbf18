// Computes the gradient of a bias during the product for its weight's gradient: MatmulArgs::bias_grad.
#pragma once

#include "kernels/cpu/convert.h"
#include "kernels/cpu/matmul/matmul_tiling.h"

namespace trireme::cpu {

inline bool wants_bias_grad(const MatmulArgs& args) {
  return args.bias_grad.defined() && args.bias_grad_mode != GradientMode::kIgnore;
}

/// Adds `range` rows of an fp32 a, from row `k` on, to the elements [first, first + count) of bias_grad. k =
/// 0 overwrites if the mode is kOverwrite. Called just before or after a product reads those rows.
inline void add_bias_grad(const MatmulArgs& args, std::int64_t k, std::int64_t range, std::int64_t first,
                          std::int64_t count) {
  float* sum = args.bias_grad.as<float>() + first;
  if (k == 0 && args.bias_grad_mode == GradientMode::kOverwrite) std::fill_n(sum, count, 0.0f);
  const std::int64_t pitch = args.a.shape[1];
  numerics().elementwise->add_rows(args.a.as<float>() + k * pitch + first, range, pitch, sum, count);
}

}  // namespace trireme::cpu
