// Dropout whose mask is drawn again in backward instead of being stored (see [Note: random numbers]).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// keep ? input / (1 - p) : 0, plus `residual` where defined, in the wider of their dtypes. Dim 0 is the
/// sample. Without training or with p = 0 it is input (+ residual). Backward saves nothing.
Tensor dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

/// The same of a residual stream [B, T, C], or of this rank's shard of it: see [Note: sequence shards].
Tensor stream_dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

/// Stochastic depth (Huang et al. 2016): the same of whole samples, each kept with probability 1 - p. So a
/// residual branch is left out.
Tensor drop_path(Context& ctx, const Tensor& input, float p, const Tensor& residual = {});

}  // namespace trireme::ops
