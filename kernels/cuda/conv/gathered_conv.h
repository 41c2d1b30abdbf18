// Convolutions as products of gathered windows.
//
// [Note: gathered windows] The windows of x are copied, one chunk of pixels at a time, to a matrix [out
// pixels, R S C]. cuBLASLt multiplies it by the weight or by dy; its 16-bit products have fp32 results on
// every card. Chunks of weight gradients are added in order. The last chunk may use another algorithm, which
// depends on its number of pixels. A chunk is small enough for the cache of a Hopper card; the whole matrix
// would need R S times the memory of x. Two kinds of convolutions run this way:
//  * 16-bit weight gradients that cuDNN refuses;
//  * forward and weight gradient of 16-bit images with fewer than 8 channels that tiles do not support
//    ([Note: windows on tensor cores] in window_conv.h): large kernels and strides, and cards before
//    sm_80. On those cards this workspace replaces the predicted one.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Requires may_gather() of kernels/product_workspace.h. y or dy must have elements.
void gathered_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void gathered_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda
