// Convolutions as products of matrices that are gathered from the images while they are multiplied: for every
// geometry and dtype, in fp32 arithmetic without tensor cores. fp32 is read whole, also where tf32 would do.
#pragma once

#include "kernels/cuda/conv/conv_shape.h"

namespace trireme::cuda {

// dtypes have been checked, and results have elements.
void native_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void native_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
/// Not for kIgnore.
void native_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda
