// Conversion of fp8 codes to numbers, for kernels that read those: see [Note: fp8].
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace trireme::cpu {

bool is_fp8(DType dtype);

/// Decodes e4m3 or e5m2 codes. bf16 represents each of them exactly: few mantissa bits and a power of two.
void dequantize(const KernelContext& exec, ConstTensorView codes, float inverse_scale, std::uint16_t* bf16);

}  // namespace trireme::cpu
