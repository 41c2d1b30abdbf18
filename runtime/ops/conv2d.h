// 2-D convolution.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct Conv2dOptions {
  ParamRef bias;  // [O], or undefined
  ConvGeometry geometry;
};

/// Input [B, H, W, C], weight [O, C / groups, R, S] as in PyTorch -> [B, H', W', O] in the compute dtype (see
/// precision.h), H' = (H + padding + padding_after - R) / stride + 1. Backward saves the input.
Tensor conv2d(Context& ctx, const Tensor& input, ParamRef weight, const Conv2dOptions& options = {});

}  // namespace trireme::ops
