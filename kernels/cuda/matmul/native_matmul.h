// Matrix products without a library.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/matmul/matmul_library.h"

namespace trireme::cuda {

/// Computes `product` without an epilogue, for any shape and alignment, in fp32 arithmetic without tensor
/// cores. Slow; a fallback for products that the library refuses.
void native_matmul(const KernelContext& exec, const Product& product, const ProductPointers& pointers);

}  // namespace trireme::cuda
