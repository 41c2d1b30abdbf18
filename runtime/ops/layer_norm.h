// Normalisation over the last dim: layer norm (Ba et al. 2016) and RMS norm (Zhang & Sennrich 2019).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct NormOptions {
  float epsilon = 1e-5f;
  /// Number of groups in which the gradients of gamma and beta are summed. With more than one, the input is a
  /// residual stream [B, T, C] of a model in that number of chunks, or this rank's shard of it: see [Note:
  /// row groups].
  int row_groups = 1;
  float gamma_offset = 0.0f;  // added to gamma, in fp32: 1 for models that store gains as differences from 1
};

/// Input [..., C], gamma [C], beta [C] -> [..., C]. Statistics in fp32, biased variance.
/// Backward saves the input and two floats per row. It adds into an existing gradient of the input (the
/// residual branch). With row groups, backward of a sequence shard is collective over the tensor axis.
Tensor layer_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
                  const NormOptions& options = {});

/// x / sqrt(mean of x^2 + epsilon) * gamma, without mean subtraction or bias. Backward saves the input and
/// one float per row.
Tensor rms_norm(Context& ctx, const Tensor& input, ParamRef gamma, const NormOptions& options = {});

}  // namespace trireme::ops
