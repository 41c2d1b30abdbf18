// Convolutions as products of gathered windows.
//
// [Note: gathered windows] The windows of x are copied to a matrix of [out pixels, R S C], a chunk of pixels
// at a time, and multiplied by the weight or by dy with cuBLASLt, whose 16-bit products have fp32 results on
// every card. Chunks of weight gradients are added in their order; the last chunk may run by another
// algorithm, which its number of pixels decides. A chunk is small enough for the cache of a Hopper card: the
// whole matrix would need R S times the memory of x. So run 16-bit weight gradients that cuDNN refuses, and
// forward and weight gradient of 16-bit images of fewer than 8 channels that have no tiles
// ([Note: windows on tensor cores] in window_conv.h): large kernels and strides, and cards before sm_80,
// which take this workspace in place of the predicted one.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// For what may_gather() of kernels/product_workspace.h says; y or dy has elements.
void gathered_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void gathered_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda
