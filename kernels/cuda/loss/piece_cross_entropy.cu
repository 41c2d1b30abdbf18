// Cross-entropy over logits whose classes are split into pieces. One block computes the statistics of a row
// of one piece; pieces are joined; then each piece's gradient is computed.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/loss/exp_sum.cuh"
#include "kernels/cuda/loss/row_losses.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 256;

template <class T, int N>
__global__ void __launch_bounds__(kRowThreads)
    logit_statistics_kernel(const T* logits, const std::int32_t* targets, float* out, std::int64_t rows,
                            std::int64_t cols, std::int64_t first_class) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t target = targets[row];
  if (target < 0) {
    if (threadIdx.x == 0) out[row] = out[rows + row] = out[2 * rows + row] = 0.0f;
    return;
  }
  const T* x = logits + row * cols;
  ExpSum own = no_exps();
#pragma unroll 4
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N];
    load<N>(x + c, v);
    include(own, v);
  }
  const ExpSum total = block_join<kRowThreads>(own);
  if (threadIdx.x != 0) return;
  const std::int64_t at = target - first_class;
  out[row] = total.max;
  out[rows + row] = total.sum;
  out[2 * rows + row] = at >= 0 && at < cols ? to_float(x[at]) : 0.0f;
}

__global__ void join_kernel(const float* a, const float* b, float* out, std::int64_t rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  const ExpSum sum = join({a[row], a[rows + row]}, {b[row], b[rows + row]});
  const float logit = a[2 * rows + row] + b[2 * rows + row];
  out[row] = sum.max;
  out[rows + row] = sum.sum;
  out[2 * rows + row] = logit;
}

__global__ void row_losses_kernel(const std::int32_t* targets, const float* statistics, float* row_losses,
                                  std::int64_t rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  row_losses[row] =
      targets[row] < 0 ? 0.0f : logf(statistics[rows + row]) + (statistics[row] - statistics[2 * rows + row]);
}

template <class T, int N>
__global__ void __launch_bounds__(kRowThreads)
    piece_gradient_kernel(T* logits, const std::int32_t* targets, const float* statistics, std::int64_t rows,
                          std::int64_t cols, std::int64_t first_class, float scale,
                          const float* gradient_scale) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t target = targets[row];
  T* x = logits + row * cols;
  if (gradient_scale != nullptr) scale *= *gradient_scale;
  const float max = statistics[row], factor = target < 0 ? 0.0f : scale / statistics[rows + row];
  const std::int64_t at = target < 0 ? -1 : target - first_class;
#pragma unroll 4
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N] = {};
    if (target >= 0) {
      load<N>(x + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v[i] = exp_below(v[i] - max) * factor;
        if (c + i == at) v[i] -= scale;
      }
    }
    store<N>(x + c, v);
  }
}

std::int64_t num_rows(const ConstTensorView& logits) {
  const std::int64_t cols = logits.shape.dim(-1);
  return cols == 0 ? 0 : logits.num_elems() / cols;
}

}  // namespace

void run_op(const KernelContext& exec, const LogitStatisticsArgs& args) {
  const std::int64_t rows = num_rows(args.logits), cols = args.logits.shape.dim(-1);
  assert(args.targets.num_elems() == rows && args.statistics.num_elems() == 3 * rows);
  check_dtype("logit_statistics", DType::kFloat32, {args.statistics});
  check_dtype("logit_statistics", DType::kInt32, {args.targets});
  if (rows == 0) return;
  for_float_type("logit_statistics", args.logits.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(cols, sizeof(T), {args.logits.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "logit_statistics", grid_of(rows), kRowThreads, 0,
                          logit_statistics_kernel<T, N>, args.logits.as<T>(), args.targets.as<std::int32_t>(),
                          args.statistics.as<float>(), rows, cols, args.first_class);
                 });
  });
}

void run_op(const KernelContext& exec, const JoinLogitStatisticsArgs& args) {
  const std::int64_t rows = args.out.num_elems() / 3;
  assert(args.a.num_elems() == 3 * rows && args.b.num_elems() == 3 * rows);
  check_dtype("join_logit_statistics", DType::kFloat32, {args.a, args.b, args.out});
  if (rows == 0) return;
  launch(exec, "join_logit_statistics", grid_of(ceil_div(rows, kThreads)), kThreads, 0, join_kernel,
         args.a.as<float>(), args.b.as<float>(), args.out.as<float>(), rows);
}

void run_op(const KernelContext& exec, const PieceCrossEntropyArgs& args) {
  const std::int64_t rows = num_rows(args.logits), cols = args.logits.shape.dim(-1);
  assert(args.targets.num_elems() == rows && args.statistics.num_elems() == 3 * rows);
  check_dtype("piece_cross_entropy", DType::kFloat32, {args.statistics, args.loss, args.gradient_scale});
  check_dtype("piece_cross_entropy", DType::kInt32, {args.targets});
  const auto* targets = args.targets.as<std::int32_t>();
  const auto* statistics = args.statistics.as<float>();
  if (args.loss.defined()) {
    const Workspace row_losses(exec,
                               static_cast<std::size_t>(std::max<std::int64_t>(1, rows)) * sizeof(float));
    if (rows > 0) {
      launch(exec, "piece_cross_entropy", grid_of(ceil_div(rows, kThreads)), kThreads, 0, row_losses_kernel,
             targets, statistics, row_losses.as<float>(), rows);
    }
    sum_row_losses(exec, row_losses.as<float>(), rows, args.inv_num_targets, args.loss.as<float>());
  }
  if (!args.write_gradient || rows == 0) return;
  for_float_type("piece_cross_entropy", args.logits.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(cols, sizeof(T), {args.logits.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "piece_cross_entropy", grid_of(rows), kRowThreads, 0,
                          piece_gradient_kernel<T, N>, args.logits.as<T>(), targets, statistics, rows, cols,
                          args.first_class, args.inv_num_targets, args.gradient_scale.as<float>());
                 });
  });
}

}  // namespace trireme::cuda
