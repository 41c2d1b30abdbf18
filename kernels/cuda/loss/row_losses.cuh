// Sums the losses of rows.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// loss = scale * the sum of row_losses [rows]. The number of rows decides the order.
void sum_row_losses(const KernelContext& exec, const float* row_losses, std::int64_t rows, float scale,
                    float* loss);

}  // namespace trireme::cuda
