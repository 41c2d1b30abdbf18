// Batch normalisation (Ioffe & Szegedy 2015), optionally with residual and ReLU in the same pass.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct BatchNormOptions {
  StatisticRef mean, variance;     // running values [C]; undefined: none (inference then throws)
  Tensor residual;                 // same shape as the input, or undefined: added in the same pass
  Rectify rectify = Rectify::kNo;  // after the residual
  float epsilon = 1e-5f;
};

/// Input [..., C], gamma [C], beta [C] -> rectify((input - mean) / sqrt(variance + epsilon) * gamma + beta +
/// residual), in the wider dtype of input and residual.
/// In training it uses the mean and biased variance of the micro-batch, in fp32. The mean and the unbiased
/// variance are the samples of the running statistics (see [Note: running statistics]). Outside training it
/// uses the running statistics. Backward saves the input, two floats per channel and, for a rectifier behind
/// a residual, the result. Throws Error(kInvalidInput) when recording outside training.
Tensor batch_norm(Context& ctx, const Tensor& input, ParamRef gamma, ParamRef beta,
                  const BatchNormOptions& options = {});

}  // namespace trireme::ops
