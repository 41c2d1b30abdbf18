// Batch norm (Ioffe & Szegedy 2015), forward and inference.
//
// [Note: batch statistics on cuda] As on the cpu, rows are split into chunks by shape alone. Each chunk
// yields its mean and its sum of squares about that mean. The chunks are combined in fp64, in an order that
// the shape decides (Chan, Golub & LeVeque 1979). A chunk combines the statistics of its threads, which read
// x once. Each thread sums the differences to its first row and their squares, and finally subtracts the
// square of the sum. The first row is one of the summed rows, so its own square about the mean is part of the
// result. The error is therefore at most 2^-24 for each of a thread's rows, a few dozen, however large the
// mean and however unusual the row. Reading x twice, first for the mean and then for the squares, would cost
// more, because the running chunks are larger than the card's cache.
//
// The statistics run from the last rows to the first. They thus begin with what the previous kernel wrote
// last, and the second pass begins with what the statistics read last.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/norm/batch_norm.cuh"
#include "kernels/cuda/norm/channel_moments.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

// See [Note: batch statistics on cuda].
__global__ void __launch_bounds__(kJoinCols* kJoinShares)
    join_moments_kernel(RowChunks chunks, const float* moments, float epsilon, float* mean_out,
                        float* rstd_out, float* variance_out) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kJoinCols + threadIdx.x;
  const bool is_column = col < chunks.cols;
  const auto full = static_cast<double>(chunks.chunk_rows), total = static_cast<double>(chunks.rows);
  const auto in_last = static_cast<double>(chunks.rows - (chunks.count - 1) * chunks.chunk_rows);
  const double shift = is_column ? static_cast<double>(moments[col]) : 0.0;
  ChannelSums sums{0.0, 0.0};  // of the rows' differences to `shift`, and of their squares
  if (is_column) {
    sums = sum_of_chunks(chunks, moments, col, [&](std::int64_t chunk, float mean, float squares) {
      const double apart = static_cast<double>(mean) - shift;
      const double sum = (chunk == chunks.count - 1 ? in_last : full) * apart;
      return ChannelSums{sum, static_cast<double>(squares) + sum * apart};
    });
  }
  sums = sum_of_shares(sums);
  if (threadIdx.y != 0 || !is_column) return;
  const double mean = sums.first / total, m2 = sums.second - sums.first * mean;
  mean_out[col] = static_cast<float>(shift + mean);
  rstd_out[col] = static_cast<float>(1.0 / sqrt(m2 / total + static_cast<double>(epsilon)));
  if (variance_out == nullptr) return;
  variance_out[col] = static_cast<float>(m2 / (chunks.rows > 1 ? total - 1.0 : 1.0));
}

__global__ void rstd_kernel(const float* variance, float epsilon, float* rstd, std::int64_t cols) {
  const std::int64_t col = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  rstd[col] =
      static_cast<float>(1.0 / sqrt(static_cast<double>(variance[col]) + static_cast<double>(epsilon)));
}

struct Statistics {
  const float *mean, *rstd;
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(RowChunks chunks, const T* x, Statistics statistics, const T* gamma, const T* beta,
                     const T* residual, T* y, bool rectify) {
  const TileShare own = tile_share<N>(chunks);
  if (!own.has_columns) return;
  ChannelMaps<N> map;
  map.read(statistics.mean, statistics.rstd, gamma, beta, own.col);
  for (std::int64_t row = own.first; row < own.last; row += own.step) {
    const std::int64_t at = row * chunks.cols + own.col;
    float v[N], r[N] = {};
    load<N>(x + at, v);
    if (residual != nullptr) load<N>(residual + at, r);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = map(v[i], i) + r[i];
      if (rectify && v[i] < 0.0f) v[i] = 0.0f;  // NaN stays NaN
    }
    store<N>(y + at, v);
  }
}

// For both argument structs.
template <class Args>
void normalize(const KernelContext& exec, const char* op, const RowChunks& chunks, const Args& args,
               const Statistics& statistics) {
  for_float_type(op, args.x.dtype, [&]<class T>(T) {
    const T *x = args.x.template as<T>(), *gamma = args.gamma.template as<T>(),
            *beta = args.beta.template as<T>(), *residual = args.residual.template as<T>();
    T* y = args.y.template as<T>();
    with_pack<T>(rows_are_packable(chunks.cols, sizeof(T),
                                   {x, gamma, beta, residual, y, statistics.mean, statistics.rstd}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch_column_tiles<N>(exec, op, chunks, normalize_kernel<T, N>, chunks, x, statistics,
                                          gamma, beta, residual, y, args.rectify == Rectify::kYes);
                 });
  });
}

RowChunks chunks_of(ConstTensorView x) {
  const std::int64_t cols = x.shape.dim(-1);
  return row_chunks(cols == 0 ? 0 : x.num_elems() / cols, cols);
}

}  // namespace

void run_op(const KernelContext& exec, const BatchNormFwdArgs& args) {
  check_dtype("batch_norm_fwd", args.x.dtype, {args.gamma, args.beta, args.residual, args.y});
  check_dtype("batch_norm_fwd", DType::kFloat32, {args.mean, args.rstd, args.variance});
  const RowChunks chunks = chunks_of(args.x);
  if (chunks.rows == 0) return;
  assert(args.gamma.num_elems() == chunks.cols && args.y.num_elems() == args.x.num_elems());
  const Workspace moments(exec, static_cast<std::size_t>(2 * chunks.count * chunks.cols) * sizeof(float));
  for_float_type("batch_norm_fwd", args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    with_pack<T>(rows_are_packable(chunks.cols, sizeof(T), {x}), [&]<int N>(std::integral_constant<int, N>) {
      launch_column_tiles<N>(exec, "batch_norm_fwd", chunks, moments_kernel<T, N>, chunks, x,
                             moments.as<float>());
    });
  });
  float *mean = args.mean.as<float>(), *rstd = args.rstd.as<float>();
  launch_join(exec, "batch_norm_fwd", chunks.cols, join_moments_kernel, chunks, moments.as<float>(),
              args.epsilon, mean, rstd, args.variance.as<float>());
  normalize(exec, "batch_norm_fwd", chunks, args, {mean, rstd});
}

void run_op(const KernelContext& exec, const BatchNormInferArgs& args) {
  check_dtype("batch_norm_infer", args.x.dtype, {args.gamma, args.beta, args.residual, args.y});
  check_dtype("batch_norm_infer", DType::kFloat32, {args.mean, args.variance});
  const RowChunks chunks = chunks_of(args.x);
  if (chunks.rows == 0) return;
  const Workspace rstd(exec, static_cast<std::size_t>(chunks.cols) * sizeof(float));
  launch(exec, "batch_norm_infer", grid_of(ceil_div(chunks.cols, kThreads)), kThreads, 0, rstd_kernel,
         args.variance.as<float>(), args.epsilon, rstd.as<float>(), chunks.cols);
  normalize(exec, "batch_norm_infer", chunks, args, {args.mean.as<float>(), rstd.as<float>()});
}

}  // namespace trireme::cuda
