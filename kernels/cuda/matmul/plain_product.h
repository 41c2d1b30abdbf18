// A product without what may follow it.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/matmul/matmul_library.h"

namespace trireme::cuda {

/// `product`, which has neither an epilogue nor an addend: by the library, or else natively.
void plain_product(const KernelContext& exec, const Product& product, const ProductPointers& pointers);

}  // namespace trireme::cuda
