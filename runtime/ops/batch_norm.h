// Batch normalisation (Ioffe & Szegedy 2015), with what follows it in residual networks.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct BatchNormOptions {
  StatisticRef mean, variance;     // running values [C]; undefined: none (then inference throws)
  Tensor residual;                 // like the input, or undefined: added in the same pass
  Rectify rectify = Rectify::kNo;  // after the residual
  float epsilon = 1e-5f;
};

/// Input [..., C], gamma [C], beta [C] -> rectify((input - mean) / sqrt(variance + epsilon) * gamma + beta +
/// residual), in the wider dtype of input and residual.
/// In training with mean and biased variance of the micro-batch, in fp32; its mean and unbiased variance are
/// the samples of the running statistics (see [Note: running statistics]). Otherwise with those. Backward
/// saves the input, two floats a channel and, of a rectifier behind a residual, the result. Throws
/// Error(kInvalidInput) for recording outside of training.
Tensor batch_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
                  const BatchNormOptions& options = {});

}  // namespace trireme::ops
