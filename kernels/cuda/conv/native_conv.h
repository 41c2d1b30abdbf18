// Native (fallback) convolutions: matrix products whose operands are gathered from the images on the fly.
// They support every geometry and dtype, and compute in fp32 without tensor cores. fp32 operands are not
// rounded, even for kTf32.
#pragma once

#include "kernels/cuda/conv/conv_shape.h"

namespace trireme::cuda {

// The caller has checked dtypes, and that results are not empty.
void native_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void native_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
/// Not for GradientMode::kIgnore.
void native_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda
