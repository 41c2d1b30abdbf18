// Pooling of images [B, H, W, C].
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// The maximum of every window, padding excluded -> [B, (H + 2 padding - height) / stride + 1, ..., C].
/// Padding is at most half of the window, and a window has at most 256 pixels. Backward saves one byte per
/// output.
Tensor max_pool(Context& ctx, const Tensor& x, const PoolWindow& window);

/// The mean of every window, padding counted as zeros. Backward saves nothing.
Tensor avg_pool(Context& ctx, const Tensor& x, const PoolWindow& window);

/// The mean of every image -> [B, C]. Backward saves nothing.
Tensor global_pool(Context& ctx, const Tensor& x);

}  // namespace trireme::ops
