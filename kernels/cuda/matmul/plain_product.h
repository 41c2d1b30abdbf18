// A product without epilogue.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/matmul/matmul_library.h"

namespace trireme::cuda {

/// Runs `product`, which has neither an epilogue nor an addend, in the library or else natively.
void plain_product(const KernelContext& exec, const Product& product, const ProductPointers& pointers);

}  // namespace trireme::cuda
