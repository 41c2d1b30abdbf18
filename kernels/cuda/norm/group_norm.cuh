// Shared by forward and backward of group norm: the affine map of the channels of a sample.
#pragma once

#include "kernels/cuda/norm/column_tile.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/silu.cuh"

namespace trireme::cuda {

/// The statistics of a sample's groups, each [samples, groups].
struct GroupStatistics {
  const float *mean, *rstd;
  int groups, width;  // width: channels of a group

  __device__ std::int64_t group_of(std::int64_t sample, std::int64_t col) const {
    return sample * groups + col / width;
  }
};

/// (x - mean) rstd gamma + beta of N neighbouring channels of a sample.
template <int N>
struct GroupMaps {
  float mean[N], scale[N], shift[N];

  template <class T>
  __device__ void read(const GroupStatistics& statistics, std::int64_t sample, std::int64_t col,
                       const T* gamma, const T* beta) {
    load<N>(gamma + col, scale);
    load<N>(beta + col, shift);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::int64_t group = statistics.group_of(sample, col + i);
      mean[i] = statistics.mean[group];
      scale[i] *= statistics.rstd[group];
    }
  }
  // Compiles to the same bits in both kernels; backward uses it to recompute the argument of SiLU.
  __device__ float operator()(float x, int i) const {
    return fmaf(x - mean[i], scale[i], shift[i]);
  }
};

/// Chunks of the samples of x [B, ..., C]. The chunks of a sample do not depend on the number of samples.
inline RowChunks sample_chunks(ConstTensorView x, std::int64_t samples) {
  const std::int64_t cols = x.shape.dim(-1);
  const bool is_empty = x.num_elems() == 0;
  RowChunks chunks = row_chunks(is_empty ? 0 : x.num_elems() / cols / samples, cols);
  chunks.samples = is_empty ? 0 : samples;
  return chunks;
}

}  // namespace trireme::cuda
