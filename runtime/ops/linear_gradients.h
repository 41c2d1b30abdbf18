// The gradients of a linear layer's weight and bias.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct LinearGradientArgs {
  ConstTensorView dy, x;      // [M, N] and [M, K]; as fp8 codes transposed, [N, M] and [K, M]
  std::int64_t dy_pitch = 0;  // elements between rows of dy in memory; 0: N
  MathMode math = MathMode::kFp32;
  ConstTensorView dy_inverse_scale, x_inverse_scale;  // of fp8 codes, or undefined
};

/// dweight [N, K] (+)= dy^T x, and dbias [N] (+)= the sums of dy's columns, as their modes say.
void add_linear_gradients(Context& ctx, const GradientTarget& dweight, const GradientTarget& dbias,
                          const LinearGradientArgs& args);

}  // namespace trireme::ops
