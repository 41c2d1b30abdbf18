// Another dtype for the same values.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x in `dtype` (fp32, fp16 or bf16), rounded to nearest, ties to even; x itself when it has that dtype.
/// Backward saves nothing and casts the gradient back.
Tensor cast(Context& ctx, const Tensor& x, DType dtype);

/// A parameter in the dtype that an op computes in: the working copy, or a cast of it where an override of
/// the policy wants another dtype. Nothing is recorded: its gradient goes to ctx.parameters->gradient().
Tensor parameter(Context& ctx, ParamRef ref, DType dtype);

}  // namespace trireme::ops
