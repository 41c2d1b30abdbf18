#include "kernels/cuda/matmul/column_sum.cuh"

#include <cassert>
#include <iterator>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 8;     // in the first stage
constexpr int kChunkThreads = 16;  // in the second stage

// Writes partials[chunk, c]. With a pitch, the last pack of a row may reach beyond the row. One block sums a
// chunk of kChunkRows rows and kWarp * N columns.
template <class T, int N>
__global__ void column_sum_kernel(const T* x, float* partials, std::int64_t rows, std::int64_t cols,
                                  std::int64_t pitch) {
  __shared__ float sums[kRowThreads][kWarp * N];
  const std::int64_t col = (std::int64_t{blockIdx.y} * kWarp + threadIdx.x) * N;
  const std::int64_t first = std::int64_t{blockIdx.x} * kChunkRows;
  const std::int64_t last = first + kChunkRows < rows ? first + kChunkRows : rows;
  float sum[N] = {};
  if (col < cols) {
    for (std::int64_t row = first + threadIdx.y; row < last; row += kRowThreads) {
      float v[N];
      load<N>(x + row * pitch + col, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[threadIdx.y][threadIdx.x * N + i] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float total = 0.0f;
    for (int y = 0; y < kRowThreads; ++y) total += sums[y][threadIdx.x * N + i];
    if (col + i < cols) partials[std::int64_t{blockIdx.x} * cols + col + i] = total;
  }
}

// A kernel argument.
struct AllTotals {
  ChunkTotals of[2];
};

// blockIdx.y selects the result.
__global__ void sum_chunks_kernel(AllTotals totals, std::int64_t num_chunks, std::int64_t pitch,
                                  std::int64_t cols) {
  const auto [partials, out, mode] = totals.of[blockIdx.y];
  __shared__ float sums[kChunkThreads][kWarp + 1];
  const std::int64_t col = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t share = ceil_div(num_chunks, kChunkThreads);
  const std::int64_t first = threadIdx.y * share;
  const std::int64_t last = first + share < num_chunks ? first + share : num_chunks;
  float sum = 0.0f;
  if (col < cols) {
#pragma unroll 4
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
  const std::int64_t pitch = args.x_pitch > 0 ? args.x_pitch : cols;
  const std::int64_t chunks = ceil_div(rows, kChunkRows);
  const Workspace partials(
      exec, static_cast<std::size_t>(std::max<std::int64_t>(1, chunks * cols)) * sizeof(float));
  if (rows > 0) {
    for_float_type("column_sum", args.x.dtype, [&]<class T>(T) {
      with_pack<T>(rows_are_packable(pitch, sizeof(T), {args.x.data}),
                   [&]<int N>(std::integral_constant<int, N>) {
                     dim3 grid = grid_of(chunks);  // chunks along x, whose limit is above 65535
                     grid.y = static_cast<unsigned>(ceil_div(cols, kWarp * N));
                     launch(exec, "column_sum", grid, dim3(kWarp, kRowThreads), 0, column_sum_kernel<T, N>,
                            args.x.as<T>(), partials.as<float>(), rows, cols, pitch);
                   });
    });
  }
  sum_chunks(exec, "column_sum", {{partials.as<float>(), args.out.as<float>(), args.mode}}, chunks, cols,
             cols);
}

}  // namespace trireme::cuda
