// Matrix products of operands that need conversion (16-bit ones, and fp32 read as tf32), and of large
// operands that sgemm reads slowly in place.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/matmul/matmul_tiling.h"

namespace trireme::cpu {

/// Runs MatmulArgs. dtypes have been checked, and m and n are positive. If a is not fp32, the caller has
/// already computed bias_grad.
void matmul_by_panels(const KernelContext& exec, const MatmulArgs& args, const Extents& e);

}  // namespace trireme::cpu
