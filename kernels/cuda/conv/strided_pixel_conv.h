// The data gradient of a convolution whose kernel is one pixel and whose stride is not: the shortcuts of
// residual networks.
//
// [Note: strided pixels] dx is a product, dy times the weight, at the pixels that the stride meets, and
// nothing elsewhere. cuDNN's engines took 3 to 4.7 times the memory's time for it on an H100, as they write
// zeros, in fp32 where something is added, to all pixels of dx. Here cuBLASLt makes the product apart, in
// fp32 where something is added to it, so that 16-bit results are rounded once, and a kernel spreads it over
// dx. Where the addend is dx itself only the pixels that are met are read and written.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// For what is_strided_product() of kernels/product_workspace.h says; dx has elements.
void strided_pixel_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);

}  // namespace trireme::cuda
