// fp8 codes as the numbers that they stand for, for kernels that read those: see [Note: fp8].
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace trireme::cpu {

bool is_fp8(DType dtype);

/// The numbers of e4m3 or e5m2 codes. bf16 holds each of them exactly: a few bits and a power of two.
void dequantize(const KernelContext& exec, ConstTensorView codes, float inverse_scale, std::uint16_t* bf16);

}  // namespace trireme::cpu
