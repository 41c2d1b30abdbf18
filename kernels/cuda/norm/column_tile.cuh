// The cut of [rows, cols] by kernels over channels: a block is some rows by some columns, a thread N
// neighbouring columns of every so many rows. Few columns get more threads a column.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {

/// Rows cut into chunks, by shape alone.
struct RowChunks {
  std::int64_t rows, cols;
  std::int64_t chunk_rows, count;
};

/// At most about 1024 chunks, so that putting them together stays short.
inline RowChunks row_chunks(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kLeastRows = 128, kMostChunks = 1024;
  const std::int64_t share = ceil_div(rows, kMostChunks);
  const std::int64_t chunk_rows = share > kLeastRows ? share : kLeastRows;
  return {rows, cols, chunk_rows, ceil_div(rows, chunk_rows)};
}

/// Threads of a block along the columns: a power of two, at most a warp.
template <int N>
int column_lanes(std::int64_t cols) {
  int lanes = 1;
  while (lanes < kWarp && lanes * N < cols) lanes *= 2;
  return lanes;
}

/// Launches `kernel` with a block for every chunk and tile of columns.
template <int N, class... Params, class... Args>
void launch_column_tiles(const KernelContext& exec, const char* op, const RowChunks& chunks,
                         void (*kernel)(Params...), Args&&... args) {
  const int lanes = column_lanes<N>(chunks.cols);
  dim3 grid = grid_of(chunks.count);
  grid.y = static_cast<unsigned>(ceil_div(chunks.cols, std::int64_t{lanes} * N));
  launch(exec, op, grid, dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(kThreads / lanes)), 0,
         kernel, std::forward<Args>(args)...);
}

/// The running thread's share of its block's tile.
struct TileShare {
  std::int64_t col;          // the first of N
  std::int64_t first, last;  // rows, every `step`-th
  int step;
  bool has_columns;
};

template <int N>
__device__ inline TileShare tile_share(const RowChunks& chunks) {
  const std::int64_t first = std::int64_t{blockIdx.x} * chunks.chunk_rows, end = first + chunks.chunk_rows;
  const std::int64_t col = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  return {.col = col,
          .first = first + threadIdx.y,
          .last = end < chunks.rows ? end : chunks.rows,
          .step = static_cast<int>(blockDim.y),
          .has_columns = col < chunks.cols};
}

/// value[i] = its sum over the block's threads of the same columns, in their order, the same bits in all of
/// them. All threads of the block call. `shared` has room for kThreads * N and is used for nothing else
/// between two barriers around the call.
template <int N>
__device__ inline void sum_over_rows(float (&value)[N], float* shared) {
  __syncthreads();  // the previous use of `shared` is over
  float* own = shared + (threadIdx.y * blockDim.x + threadIdx.x) * N;
#pragma unroll
  for (int i = 0; i < N; ++i) own[i] = value[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) value[i] = shared[threadIdx.x * N + i];
  for (unsigned y = 1; y < blockDim.y; ++y) {
    const float* other = shared + (y * blockDim.x + threadIdx.x) * N;
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] += other[i];
  }
}

}  // namespace trireme::cuda
