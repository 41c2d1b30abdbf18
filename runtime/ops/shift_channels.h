// A vector of each sample, added at all of its positions: the time embedding in a UNet's residual units.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// x [B, ..., C] + shift [B, C] at every position -> like x, in the wider of their dtypes (the policy of
/// `add` in precision.h). Gradients reach both; the gradient of `shift` is summed in fp32. Backward saves
/// nothing.
Tensor shift_channels(Context& ctx, const Tensor& x, const Tensor& shift);

}  // namespace trireme::ops
