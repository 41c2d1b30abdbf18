// Nearest-neighbour upsampling of images.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Images [B, H, W, C] -> [B, 2 H, 2 W, C], in x's dtype: each pixel becomes a square of four. Backward sums
/// the four gradients in fp32 and saves nothing.
Tensor upsample_nearest(Context& ctx, const Tensor& x);

}  // namespace trireme::ops
