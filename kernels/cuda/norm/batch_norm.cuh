// Shared by forward and backward of batch norm: the affine map of a channel.
#pragma once

#include "kernels/cuda/norm/column_tile.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {

/// (x - mean) rstd gamma + beta of N neighbouring channels.
template <int N>
struct ChannelMaps {
  float mean[N], scale[N], shift[N];

  template <class T>
  __device__ void read(const float* means, const float* rstd, const T* gamma, const T* beta,
                       std::int64_t col) {
    float r[N];
    load<N>(means + col, mean);
    load<N>(rstd + col, r);
    load<N>(gamma + col, scale);
    load<N>(beta + col, shift);
#pragma unroll
    for (int i = 0; i < N; ++i) scale[i] *= r[i];
  }
  // Compiles to the same bits in every kernel; backward uses it to recompute where the ReLU was active.
  __device__ float operator()(float x, int i) const {
    return fmaf(x - mean[i], scale[i], shift[i]);
  }
};

/// A block that combines chunks has kJoinCols columns, one memory sector, and kJoinShares shares of the
/// chunks. Share y handles chunks y, y + kJoinShares and so on, with kJoinHeld of them in flight.
inline constexpr int kJoinCols = 8, kJoinShares = 64, kJoinHeld = 8;
inline constexpr int kJoinWarps = kJoinCols * kJoinShares / kWarp;

/// Two sums of a column.
struct ChannelSums {
  double first, second;

  __device__ void add(const ChannelSums& other) {
    first += other.first;
    second += other.second;
  }
};

/// The sum of term(chunk, first, second) over the chunks of this thread's share. `first` and `second` are the
/// two floats of the chunk and column in partials[chunk, 2, cols].
template <class Term>
__device__ ChannelSums sum_of_chunks(const RowChunks& chunks, const float* partials, std::int64_t col,
                                     const Term& term) {
  ChannelSums sum{0.0, 0.0};
  const int count = static_cast<int>(chunks.count);
  for (int begin = threadIdx.y; begin < count; begin += kJoinHeld * kJoinShares) {
    float first[kJoinHeld] = {}, second[kJoinHeld] = {};
#pragma unroll
    for (int r = 0; r < kJoinHeld; ++r) {
      const std::int64_t p = begin + r * kJoinShares;
      if (p >= count) continue;
      first[r] = partials[2 * p * chunks.cols + col];
      second[r] = partials[(2 * p + 1) * chunks.cols + col];
    }
#pragma unroll
    for (int r = 0; r < kJoinHeld; ++r) {
      const int p = begin + r * kJoinShares;
      if (p < count) sum.add(term(p, first[r], second[r]));
    }
  }
  return sum;
}

/// The sum over a block's shares, valid in the threads of the first share. All threads must call, once per
/// kernel.
__device__ inline ChannelSums sum_of_shares(ChannelSums own) {
  __shared__ ChannelSums shared[kJoinWarps][kJoinCols];
#pragma unroll
  for (int offset = kJoinCols; offset < kWarp; offset *= 2) {
    own.add({__shfl_xor_sync(kAllLanes, own.first, offset), __shfl_xor_sync(kAllLanes, own.second, offset)});
  }
  constexpr int kWarpShares = kWarp / kJoinCols;
  if (threadIdx.y % kWarpShares == 0) shared[threadIdx.y / kWarpShares][threadIdx.x] = own;
  __syncthreads();
  ChannelSums sum{0.0, 0.0};
  if (threadIdx.y != 0) return sum;
#pragma unroll
  for (int w = 0; w < kJoinWarps; ++w) sum.add(shared[w][threadIdx.x]);
  return sum;
}

/// Launches a kernel that combines chunks, with one block per kJoinCols columns.
template <class... Params, class... Args>
void launch_join(const KernelContext& exec, const char* op, std::int64_t cols, void (*kernel)(Params...),
                 Args&&... args) {
  launch(exec, op, grid_of(ceil_div(cols, kJoinCols)), dim3(kJoinCols, kJoinShares), 0, kernel,
         std::forward<Args>(args)...);
}

}  // namespace trireme::cuda
