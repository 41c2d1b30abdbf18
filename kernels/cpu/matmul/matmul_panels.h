// Matrix products of operands that must be converted first, 16-bit ones and fp32 ones that are read as tf32,
// and of large ones that sgemm is slow to read where they lie.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/matmul/matmul_tiling.h"

namespace trireme::cpu {

/// As Backend::matmul; dtypes have been checked, m and n are positive, and where a is not fp32 the caller has
/// summed its columns.
void matmul_by_panels(const KernelContext& exec, const MatmulArgs& args, const Extents& e);

}  // namespace trireme::cpu
