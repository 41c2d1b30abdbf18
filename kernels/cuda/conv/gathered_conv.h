// The weight gradient of a convolution as products of gathered windows.
//
// [Note: gathered windows] The windows of x are copied to a matrix of [out pixels, R S C], a chunk of pixels
// at a time, and multiplied by dy with cuBLASLt, whose 16-bit products have fp32 results on every card.
// Chunks are added in their order. The whole matrix would need R S times the memory of x.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Whether gathered_bwd_weight takes it: 16 bits, one group. In fp32 the native kernel is as good.
bool suits_gathering(const Conv2dBwdWeightArgs& args);

void gathered_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda
