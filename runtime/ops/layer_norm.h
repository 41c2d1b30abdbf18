// Normalisation over the last dim: layer norm (Ba et al. 2016) and RMS norm (Zhang & Sennrich 2019).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct NormOptions {
  float epsilon = 1e-5f;
  /// In which the gradients of gamma and beta are summed. Of more than one, the input is a residual stream
  /// [B, T, C] of a model in so many chunks, or this rank's shard of it: see [Note: row groups].
  int row_groups = 1;
};

/// Input [..., C], gamma [C], beta [C] -> [..., C]. Statistics in fp32, biased variance.
/// Backward saves the input and two floats a row, and adds into a gradient that is already there (the
/// residual branch). With row groups backward of a sequence shard is collective over the tensor axis.
Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
                  const NormOptions& options = {});

/// x / sqrt(mean of x^2 + epsilon) * gamma: nothing is subtracted or added. Backward saves the input and one
/// float a row.
Tensor rms_norm(Context& ctx, const Tensor& input, ParamRef gamma, const NormOptions& options = {});

}  // namespace trireme::ops
