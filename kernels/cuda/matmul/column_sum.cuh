// Sums over rows in two stages: within chunks of rows, then over the chunks in order.
#pragma once

#include <initializer_list>

#include "kernels/backend.h"

namespace trireme::cuda {

/// Rows of one chunk. The split depends on shape alone.
inline constexpr std::int64_t kChunkRows = 128;

/// Partial sums of some columns, and their destination.
struct ChunkTotals {
  const float* partials = nullptr;
  float* out = nullptr;
  GradientMode mode = GradientMode::kOverwrite;
};

/// out[c] = (kAccumulate: out[c] +) sum over chunks of partials[chunk * pitch + c], for c < cols. Adds
/// neighbouring chunks first. One launch computes one or two results. `num_chunks` may be 0. Does nothing for
/// kIgnore.
void sum_chunks(const KernelContext& exec, const char* op, std::initializer_list<ChunkTotals> totals,
                std::int64_t num_chunks, std::int64_t pitch, std::int64_t cols);

}  // namespace trireme::cuda
