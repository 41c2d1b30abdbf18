// Sums over rows in two stages: chunks of rows, then the chunks in order.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// Rows of one chunk: the cut is by shape alone.
inline constexpr std::int64_t kChunkRows = 128;

/// out[c] = (kAccumulate: out[c] +) sum over chunks of partials[chunk * pitch + c], for c < cols,
/// neighbouring chunks first. `num_chunks` may be 0. Does nothing for kIgnore.
void sum_chunks(const KernelContext& exec, const char* op, const float* partials, std::int64_t num_chunks,
                std::int64_t pitch, std::int64_t cols, float* out, GradientMode mode);

}  // namespace trireme::cuda
