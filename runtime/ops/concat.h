// Joined channels, for the skip connections of a UNet.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// a [..., A] and b [..., B], equal in all other dims -> [..., A + B], in the wider of their dtypes (see
/// precision.h). Gradients reach both. Backward saves nothing.
Tensor concat_channels(Context& ctx, const Tensor& a, const Tensor& b);

}  // namespace trireme::ops
