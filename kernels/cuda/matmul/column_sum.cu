#include "kernels/cuda/matmul/column_sum.cuh"

#include <cassert>
#include <iterator>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 8;     // of the first stage
constexpr int kChunkThreads = 16;  // of the second

constexpr int kHeldRows = 8;  // of a thread of the first stage, in flight

// Rows of a block: narrow matrices are cut finer, for enough blocks.
std::int64_t chunk_rows_of(std::int64_t cols) {
  return cols <= 1024 ? kChunkRows / 2 : kChunkRows;
}

// partials[chunk, c]; a block is a chunk of rows by kWarp * N columns.
template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowThreads)
    column_sum_kernel(const T* x, float* partials, std::int64_t rows, std::int64_t cols, int chunk_rows) {
  alignas(16) __shared__ float sums[kRowThreads][kWarp * N];
  const std::int64_t tile_col = std::int64_t{blockIdx.y} * kWarp * N, col = tile_col + threadIdx.x * N;
  const std::int64_t begin = std::int64_t{blockIdx.x} * chunk_rows;
  const int here = static_cast<int>(rows - begin < chunk_rows ? rows - begin : chunk_rows);
  float sum[N] = {};
  if (col < cols) {
    x += begin * cols + col;
    for (int row = threadIdx.y; row < here; row += kHeldRows * kRowThreads) {
      Pack<T, N> held[kHeldRows] = {};
#pragma unroll
      for (int r = 0; r < kHeldRows; ++r) {
        const std::int64_t at = row + r * kRowThreads;
        if (at < here) held[r] = load_pack<N>(x + at * cols);
      }
#pragma unroll
      for (int r = 0; r < kHeldRows; ++r) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += to_float(held[r].elems[i]);  // of rows there are not: zeros
      }
    }
  }
  store<N>(sums[threadIdx.y] + threadIdx.x * N, sum);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.y * kWarp + threadIdx.x); c < kWarp * N; c += kWarp * kRowThreads) {
    if (tile_col + c >= cols) continue;
    float total = 0.0f;
#pragma unroll
    for (int y = 0; y < kRowThreads; ++y) total += sums[y][c];
    partials[std::int64_t{blockIdx.x} * cols + tile_col + c] = total;
  }
}

// As an argument of a kernel.
struct AllTotals {
  ChunkTotals of[2];
};

// blockIdx.y says which of the results.
__global__ void sum_chunks_kernel(AllTotals totals, std::int64_t num_chunks, std::int64_t pitch,
                                  std::int64_t cols) {
  const auto [partials, out, mode] = blockIdx.y == 0 ? totals.of[0] : totals.of[1];
  __shared__ float sums[kChunkThreads][kWarp + 1];
  const std::int64_t col = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t share = ceil_div(num_chunks, kChunkThreads);
  const std::int64_t first = threadIdx.y * share;
  const std::int64_t last = first + share < num_chunks ? first + share : num_chunks;
  float sum = 0.0f;
  if (col < cols) {
#pragma unroll 8
    for (std::int64_t chunk = first; chunk < last; ++chunk) sum += partials[chunk * pitch + col];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  float total = 0.0f;
  for (int y = 0; y < kChunkThreads; ++y) total += sums[y][threadIdx.x];
  out[col] = mode == GradientMode::kAccumulate ? out[col] + total : total;
}

}  // namespace

void sum_chunks(const KernelContext& exec, const char* op, std::initializer_list<ChunkTotals> totals,
                std::int64_t num_chunks, std::int64_t pitch, std::int64_t cols) {
  assert(totals.size() <= std::size(AllTotals{}.of));
  AllTotals wanted{};
  unsigned count = 0;
  for (const ChunkTotals& t : totals) {
    if (t.mode != GradientMode::kIgnore) wanted.of[count++] = t;
  }
  if (count == 0 || cols == 0) return;
  dim3 grid = grid_of(ceil_div(cols, kWarp));
  grid.y = count;
  launch(exec, op, grid, dim3(kWarp, kChunkThreads), 0, sum_chunks_kernel, wanted, num_chunks, pitch, cols);
}

void run_op(const KernelContext& exec, const ColumnSumArgs& args) {
  if (args.mode == GradientMode::kIgnore) return;
  const std::int64_t cols = args.out.num_elems();
  if (cols == 0) return;
  const std::int64_t rows = args.x.num_elems() / cols;
  assert(args.x.shape.dim(-1) == cols);
  check_dtype("column_sum", DType::kFloat32, {args.out});
  const std::int64_t chunk_rows = chunk_rows_of(cols), chunks = ceil_div(rows, chunk_rows);
  const Workspace partials(
      exec, static_cast<std::size_t>(std::max<std::int64_t>(1, chunks * cols)) * sizeof(float));
  if (rows > 0) {
    for_float_type("column_sum", args.x.dtype, [&]<class T>(T) {
      with_pack<T>(rows_are_packable(cols, sizeof(T), {args.x.data}),
                   [&]<int N>(std::integral_constant<int, N>) {
                     dim3 grid = grid_of(chunks);  // along x, where there may be more than 65535
                     grid.y = static_cast<unsigned>(ceil_div(cols, kWarp * N));
                     launch(exec, "column_sum", grid, dim3(kWarp, kRowThreads), 0, column_sum_kernel<T, N>,
                            args.x.as<T>(), partials.as<float>(), rows, cols, static_cast<int>(chunk_rows));
                   });
    });
  }
  sum_chunks(exec, "column_sum", {{partials.as<float>(), args.out.as<float>(), args.mode}}, chunks, cols,
             cols);
}

}  // namespace trireme::cuda
