// Native (fallback) convolutions: matrix products whose operands are gathered from the images on the fly. For
// every geometry and dtype, in fp32 arithmetic without tensor cores. fp32 operands are not rounded, even for
// kTf32.
#pragma once

#include "kernels/cuda/conv/conv_shape.h"

namespace trireme::cuda {

// dtypes have been checked, and results have elements.
void native_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void native_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
/// Not for GradientMode::kIgnore.
void native_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda
