// The data gradient of a 1 x 1 convolution with stride: the shortcuts of residual networks.
//
// [Note: strided pixels] At the pixels that the stride samples, dx is a product, dy times the weight.
// Elsewhere it is zero. cuDNN's engines took 3 to 4.7 times the memory-bound time on an H100. They write
// zeros to all pixels of dx, in fp32 if something is added. Here cuBLASLt computes the product separately,
// and a kernel scatters it to dx. The product is fp32 if something is added, so that 16-bit results are
// rounded once. If the addend is dx itself, only the sampled pixels are read and written.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Requires is_strided_product() of kernels/product_workspace.h. dx must have elements.
void strided_pixel_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);

}  // namespace trireme::cuda
