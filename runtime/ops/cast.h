// Conversion between floating dtypes.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x in `dtype` (fp32, fp16 or bf16), rounded to nearest, ties to even; x itself if it has that dtype.
/// Backward saves nothing and casts the gradient back.
Tensor cast(Context& ctx, const Tensor& x, DType dtype);

/// A parameter in the dtype that an op computes in: the working copy, or a cast of it if an override of the
/// policy wants another dtype. Nothing is recorded: its gradient goes to ctx.parameters->gradient(). Throws
/// Error(kInvalidInput) for a parameter whose working copy has a center, which this op would not add.
Tensor parameter(Context& ctx, ParamRef ref, DType dtype);

/// A parameter for an op that adds `center` to each element. See [Note: centered working copies].
struct CenteredParameter {
  Tensor value;
  float center = 0.0f;
};
CenteredParameter centered_parameter(Context& ctx, ParamRef ref, DType dtype);

}  // namespace trireme::ops
