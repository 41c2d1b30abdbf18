// fp8 codes as products want them: see [Note: fp8] and [Note: fp8 products].
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

bool is_fp8(DType dtype);

/// The numbers of e4m3 or e5m2 codes in bf16, which holds each of them exactly.
void dequantize(const KernelContext& exec, ConstTensorView codes, ConstTensorView inverse_scale, void* bf16);

/// Codes [rows, cols] as [cols, rows].
void transpose_codes(const KernelContext& exec, ConstTensorView codes, void* transposed);

}  // namespace trireme::cuda
