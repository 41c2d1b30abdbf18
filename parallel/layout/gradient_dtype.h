// Checks that a backend can keep gradients in the configured dtype.
#pragma once

#include "runtime/context.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

/// Runs every operation on gradients of ctx.precision.grad_dtype (rounding, sums, norm, update) on a few
/// numbers, before the first step. If the backend lacks one, throws its Error with the configuration key in
/// front.
void check_gradient_dtype(const Context& ctx, const Optimizer& optimizer);

}  // namespace trireme
