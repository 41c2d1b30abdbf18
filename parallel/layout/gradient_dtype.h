// Can this backend keep gradients in that dtype?
#pragma once

#include "runtime/context.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

/// Tries everything that is done to gradients of ctx.precision.grad_dtype (rounding, sums, norm, update) on a
/// few numbers. Throws the backend's Error, with the configuration's key in front, when it lacks one: before
/// the first step, not in the middle of it.
void check_gradient_dtype(const Context& ctx, const Optimizer& optimizer);

}  // namespace trireme
