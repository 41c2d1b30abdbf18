// Conversions of fp8 codes for products: see [Note: fp8] and [Note: fp8 products].
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

bool is_fp8(DType dtype);

/// Decodes e4m3 or e5m2 codes to bf16, which represents each of them exactly.
void dequantize(const KernelContext& exec, ConstTensorView codes, ConstTensorView inverse_scale, void* bf16);

}  // namespace trireme::cuda
