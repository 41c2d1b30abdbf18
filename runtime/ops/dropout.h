// Dropout. Backward draws the mask again instead of storing it (see [Note: random numbers]).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// keep ? input / (1 - p) : 0, plus `residual` if defined, in the wider of their dtypes. Dim 0 is the sample.
/// Outside training, or with p = 0, it returns input (+ residual). Backward saves nothing.
Tensor dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

/// dropout() of a residual stream [B, T, C], or of this rank's shard of it: see [Note: sequence shards].
Tensor stream_dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

/// Stochastic depth (Huang et al. 2016): dropout of whole samples, each kept with probability 1 - p. A
/// dropped sample skips its residual branch.
Tensor drop_path(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

}  // namespace trireme::ops
