// The product of matrices without the library.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/matmul/matmul_library.h"

namespace trireme::cuda {

/// `product` without an epilogue, of every shape and alignment, in fp32 arithmetic without tensor cores:
/// right and slow, for what the library refuses.
void native_matmul(const KernelContext& exec, const Product& product, const ProductPointers& pointers);

}  // namespace trireme::cuda
