// Splits [rows, cols] for kernels over channels. A block has some rows and some columns. A thread has N
// neighbouring columns of every `step`-th row. With few columns, each column gets more threads.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {

/// The rows of each sample, split into chunks by shape alone. Batch norm has one sample, with the rows of the
/// whole batch.
struct RowChunks {
  std::int64_t rows, cols;
  std::int64_t chunk_rows, count;  // of a sample
  std::int64_t samples = 1;
};

/// About kBlocks blocks, in whole waves of 132 multiprocessors. More would make combining the chunks longer.
/// Each thread gets at least a few rows. Chunks are multiples of what a block's threads hold at a time, for
/// packed columns or not.
inline RowChunks row_chunks(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kBlocks = 8 * 132, kTileCols = 256, kLeastElems = 64 * kTileCols;
  const std::int64_t width = cols < kTileCols ? (cols > 0 ? cols : 1) : kTileCols;
  const std::int64_t most = ceil_div(kBlocks, ceil_div(cols > 0 ? cols : 1, kTileCols));
  const std::int64_t share = ceil_div(rows, most), least = ceil_div(kLeastElems, width);
  const std::int64_t step = ceil_div(kLeastElems / 2, width);
  const std::int64_t chunk_rows = ceil_div(share > least ? share : least, step) * step;
  return {rows, cols, chunk_rows, ceil_div(rows, chunk_rows)};
}

/// Threads of a block along the columns: a power of two, at most a warp.
template <int N>
int column_lanes(std::int64_t cols) {
  int lanes = 1;
  while (lanes < kWarp && lanes * N < cols) lanes *= 2;
  return lanes;
}

/// Launches `kernel` with one block per sample, chunk and tile of columns, neighbouring tiles first.
template <int N, class... Params, class... Args>
void launch_column_tiles(const KernelContext& exec, const char* op, const RowChunks& chunks,
                         void (*kernel)(Params...), Args&&... args) {
  const int lanes = column_lanes<N>(chunks.cols);
  dim3 grid = grid_of(ceil_div(chunks.cols, std::int64_t{lanes} * N));
  TRIREME_CHECK(chunks.samples <= 65535,
                "{} on cuda: {} samples are too many for one launch; use a smaller micro-batch", op,
                chunks.samples);
  grid.y = static_cast<unsigned>(chunks.count);
  grid.z = static_cast<unsigned>(chunks.samples);
  launch(exec, op, grid, dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(kThreads / lanes)), 0,
         kernel, std::forward<Args>(args)...);
}

/// The order in which blocks, which start in the order of their indices, process the rows. A pass that begins
/// where the previous one ended finds the last rows in the card's cache.
enum class Order : std::uint8_t { kFirstToLast, kLastToFirst };

/// The calling thread's share of its block's tile.
struct TileShare {
  std::int64_t sample;
  std::int64_t chunk;        // counted over all samples
  std::int64_t tile_col;     // the block's first
  std::int64_t col;          // the first of N
  std::int64_t first, last;  // rows, every `step`-th
  int rows;                  // of the block
  int step;
  bool has_columns;

  /// Rows of the block's threads with threadIdx.y = `y`.
  __device__ int rows_of(int y) const { return rows / step + (y < rows % step ? 1 : 0); }
};

template <int N, Order kOrder = Order::kFirstToLast>
__device__ inline TileShare tile_share(const RowChunks& chunks) {
  constexpr bool kForwards = kOrder == Order::kFirstToLast;
  const std::int64_t chunk = kForwards ? blockIdx.y : gridDim.y - 1 - blockIdx.y;
  const std::int64_t tile = kForwards ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
  const std::int64_t first_row = blockIdx.z * chunks.rows, end_row = first_row + chunks.rows;
  const std::int64_t begin = first_row + chunk * chunks.chunk_rows, end = begin + chunks.chunk_rows;
  const std::int64_t last = end < end_row ? end : end_row;
  const std::int64_t tile_col = tile * blockDim.x * N, col = tile_col + threadIdx.x * N;
  return {.sample = blockIdx.z,
          .chunk = blockIdx.z * chunks.count + chunk,
          .tile_col = tile_col,
          .col = col,
          .first = begin + threadIdx.y,
          .last = last,
          .rows = static_cast<int>(last - begin),
          .step = static_cast<int>(blockDim.y),
          .has_columns = col < chunks.cols};
}

/// One value for each thread and column of a block.
template <int N>
struct TileValues {
  alignas(16) float of[kThreads * N];

  __device__ void put(const float (&value)[N]) {
    store<N>(of + (threadIdx.y * blockDim.x + threadIdx.x) * N, value);
  }
  /// The value of the threads with threadIdx.y = `y` for the block's column `c`.
  __device__ float at(int y, int c) const { return of[y * blockDim.x * N + c]; }
};

/// Calls run(c) for the columns c of the block's tile. Each thread takes one column at a time.
template <int N, class Run>
__device__ inline void for_tile_columns(const RowChunks& chunks, const TileShare& own, const Run& run) {
  const int width = static_cast<int>(blockDim.x) * N;
  for (int c = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); c < width; c += kThreads) {
    if (own.tile_col + c < chunks.cols) run(c);
  }
}

/// Adds two values of each thread over the rows of the block. All threads of the block must call it.
/// sums[own.chunk] gets the sums of `g` [cols], then the sums of `g_x` [cols].
template <int N>
__device__ inline void write_tile_sums(const RowChunks& chunks, const TileShare& own, const float (&g)[N],
                                       const float (&g_x)[N], float* sums) {
  __shared__ TileValues<N> of_g, of_x;
  of_g.put(g);
  of_x.put(g_x);
  __syncthreads();
  float* const out = sums + 2 * own.chunk * chunks.cols + own.tile_col;
  for_tile_columns<N>(chunks, own, [&](int c) {
    float total = 0.0f, total_x = 0.0f;
#pragma unroll 8
    for (int y = 0; y < own.step; ++y) {
      total += of_g.at(y, c);
      total_x += of_x.at(y, c);
    }
    out[c] = total;
    out[chunks.cols + c] = total_x;
  });
}

}  // namespace trireme::cuda
