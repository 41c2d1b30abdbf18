// Rows of tokens that have targets. One block copies one row.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 128;

// The row of x that row `row` of y comes from, or -1.
__device__ inline std::int64_t token_of(const std::int32_t* positions, std::int64_t row, std::int64_t tokens,
                                        std::int64_t per_sample) {
  return positions[row] < 0 ? -1 : row / per_sample * tokens + positions[row];
}

template <class T, int N>
__global__ void gather_targets_kernel(const std::int32_t* positions, const T* x, const std::int32_t* targets,
                                      T* y, std::int32_t* y_targets, std::int64_t tokens,
                                      std::int64_t per_sample, std::int64_t cols) {
  const std::int64_t row = blockIdx.x, token = token_of(positions, row, tokens, per_sample);
  if (threadIdx.x == 0) y_targets[row] = token < 0 ? -1 : targets[token];
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N] = {};
    if (token >= 0) load<N>(x + token * cols + c, v);
    store<N>(y + row * cols + c, v);
  }
}

template <class T, int N>
__global__ void scatter_targets_kernel(const std::int32_t* positions, const T* dy, T* dx, std::int64_t tokens,
                                       std::int64_t per_sample, std::int64_t cols) {
  const std::int64_t row = blockIdx.x, token = token_of(positions, row, tokens, per_sample);
  if (token < 0) return;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N];
    load<N>(dy + row * cols + c, v);
    store<N>(dx + token * cols + c, v);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const GatherTargetsArgs& args) {
  const std::int64_t rows = args.positions.num_elems(), cols = args.x.shape[2];
  assert(args.y.num_elems() == rows * cols && args.y_targets.num_elems() == rows);
  check_dtype("gather_targets", args.y.dtype, {args.x});
  check_dtype("gather_targets", DType::kInt32, {args.positions, args.targets, args.y_targets});
  if (rows == 0) return;
  for_float_type("gather_targets", args.y.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(cols, sizeof(T), {args.x.data, args.y.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "gather_targets", grid_of(rows), kRowThreads, 0, gather_targets_kernel<T, N>,
                          args.positions.as<std::int32_t>(), args.x.as<T>(), args.targets.as<std::int32_t>(),
                          args.y.as<T>(), args.y_targets.as<std::int32_t>(), args.x.shape[1],
                          args.positions.shape[1], cols);
                 });
  });
}

void run_op(const KernelContext& exec, const ScatterTargetsArgs& args) {
  const std::int64_t rows = args.positions.num_elems(), cols = args.dx.shape[2];
  assert(args.dy.num_elems() == rows * cols);
  check_dtype("scatter_targets", args.dx.dtype, {args.dy});
  check_dtype("scatter_targets", DType::kInt32, {args.positions});
  fill_zero(exec, args.dx);
  if (rows == 0 || cols == 0) return;
  for_float_type("scatter_targets", args.dx.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(cols, sizeof(T), {args.dy.data, args.dx.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "scatter_targets", grid_of(rows), kRowThreads, 0,
                          scatter_targets_kernel<T, N>, args.positions.as<std::int32_t>(), args.dy.as<T>(),
                          args.dx.as<T>(), args.dx.shape[1], args.positions.shape[1], cols);
                 });
  });
}

}  // namespace trireme::cuda
