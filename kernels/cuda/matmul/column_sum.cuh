// Sums over rows in two stages: chunks of rows, then the chunks in order.
#pragma once

#include <initializer_list>

#include "kernels/backend.h"

namespace trireme::cuda {

/// Rows of one chunk: the cut is by shape alone.
inline constexpr std::int64_t kChunkRows = 128;

/// Where the sums of some columns are and go.
struct ChunkTotals {
  const float* partials = nullptr;
  float* out = nullptr;
  GradientMode mode = GradientMode::kOverwrite;
};

/// out[c] = (kAccumulate: out[c] +) sum over chunks of partials[chunk * pitch + c], for c < cols,
/// neighbouring chunks first; of one or two results, in one launch. `num_chunks` may be 0. Does nothing for
/// kIgnore.
void sum_chunks(const KernelContext& exec, const char* op, std::initializer_list<ChunkTotals> totals,
                std::int64_t num_chunks, std::int64_t pitch, std::int64_t cols);

}  // namespace trireme::cuda
