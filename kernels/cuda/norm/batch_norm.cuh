// Shared by forward and backward of batch norm: a channel's affine map.
#pragma once

#include "kernels/cuda/norm/column_tile.cuh"
#include "kernels/cuda/pack.cuh"

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
  // The same bits wherever it stands: backward finds out by it what the rectifier let pass.
  __device__ float operator()(float x, int i) const {
    return fmaf(x - mean[i], scale[i], shift[i]);
  }
};

/// Doubles of a block that puts chunks together: kWarp columns by kJoinThreads shares of the chunks.
inline constexpr int kJoinThreads = 16;

/// The sum of a block's values down its kJoinThreads rows of threads, in their order, the same bits in all
/// threads of a column. All threads call; `shared` is used for nothing else between two barriers around the
/// call.
__device__ inline double sum_of_shares(double value, double (&shared)[kJoinThreads][kWarp]) {
  __syncthreads();  // the previous use of `shared` is over
  shared[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  double sum = 0.0;
  for (int y = 0; y < kJoinThreads; ++y) sum += shared[y][threadIdx.x];
  return sum;
}

/// Launches a kernel that puts chunks together: a block for kWarp columns.
template <class... Params, class... Args>
void launch_join(const KernelContext& exec, const char* op, std::int64_t cols, void (*kernel)(Params...),
                 Args&&... args) {
  launch(exec, op, grid_of(ceil_div(cols, kWarp)), dim3(kWarp, kJoinThreads), 0, kernel,
         std::forward<Args>(args)...);
}

}  // namespace trireme::cuda
