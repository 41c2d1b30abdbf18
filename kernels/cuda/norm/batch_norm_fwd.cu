// Batch norm (Ioffe & Szegedy 2015), forward and inference.
//
// [Note: batch statistics on cuda] As on the cpu: rows are cut into chunks by shape alone, each gives its own
// mean and its sum of squares about it, and the chunks are put together in order, in fp64 (Chan, Golub &
// LeVeque 1979). A chunk's own come from rows that a thread holds a few of at a time, put together by the
// same formula in fp32, first those of a thread, then the threads in their order: so x is read once for its
// statistics, where a mean first and squares about it then would read it twice, and a card's chunks together
// are larger than its cache. A large mean costs no digits, and nothing depends on which block comes first.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/norm/batch_norm.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

// Numbers of N columns: how many, their means, and their sums of squares about these.
template <int N>
struct Moments {
  float count = 0.0f;
  float mean[N] = {}, squares[N] = {};

  __device__ void join(float other_count, const float (&other_mean)[N], const float (&other_squares)[N]) {
    if (other_count == 0.0f) return;
    const float share = other_count / (count + other_count);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float apart = other_mean[i] - mean[i];
      mean[i] += apart * share;
      squares[i] += other_squares[i] + apart * apart * count * share;
    }
    count += other_count;
  }
};

constexpr int kHeldRows = 4;  // of a thread, in registers

// The moments of up to kHeldRows rows from `row` on, joined to those of the rows before.
template <class T, int N>
__device__ void add_rows(const TileShare& own, std::int64_t cols, const T* x, std::int64_t row,
                         Moments<N>& all) {
  Pack<T, N> held[kHeldRows];
  int rows = 0;
#pragma unroll
  for (int r = 0; r < kHeldRows; ++r) {
    const std::int64_t at = row + std::int64_t{r} * own.step;
    if (at >= own.last) break;
    held[r] = load_pack<N>(x + at * cols + own.col);
    ++rows;
  }
  const auto count = static_cast<float>(rows);
  float mean[N] = {}, squares[N] = {};
#pragma unroll
  for (int r = 0; r < kHeldRows; ++r) {
    if (r >= rows) break;
#pragma unroll
    for (int i = 0; i < N; ++i) mean[i] += to_float(held[r].elems[i]);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) mean[i] /= count;
#pragma unroll
  for (int r = 0; r < kHeldRows; ++r) {
    if (r >= rows) break;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float apart = to_float(held[r].elems[i]) - mean[i];
      squares[i] += apart * apart;
    }
  }
  all.join(count, mean, squares);
}

// moments[chunk]: means [cols], then sums of squares about them [cols]. Reads x once.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) moments_kernel(RowChunks chunks, const T* x, float* moments) {
  __shared__ float shared[2 * kThreads * N];
  const TileShare own = tile_share<N>(chunks);
  Moments<N> all;
  for (std::int64_t row = own.first; own.has_columns && row < own.last; row += kHeldRows * own.step) {
    add_rows<T, N>(own, chunks.cols, x, row, all);
  }
  float* const mine = shared + 2 * N * (threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int i = 0; i < N; ++i) mine[i] = all.mean[i], mine[N + i] = all.squares[i];
  __syncthreads();
  if (threadIdx.y != 0 || !own.has_columns) return;
  for (int y = 1; y < own.step; ++y) {
    const float* const other = shared + 2 * N * (y * blockDim.x + threadIdx.x);
    float mean[N], squares[N];
#pragma unroll
    for (int i = 0; i < N; ++i) mean[i] = other[i], squares[i] = other[N + i];
    const std::int64_t rest = own.last - own.first - y;  // rows from that thread's first on
    all.join(static_cast<float>(rest > 0 ? ceil_div(rest, own.step) : 0), mean, squares);
  }
  float* out = moments + 2 * blockIdx.x * chunks.cols + own.col;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    out[i] = all.mean[i];
    out[chunks.cols + i] = all.squares[i];
  }
}

// See [Note: batch statistics on cuda].
__global__ void join_moments_kernel(RowChunks chunks, const float* moments, float epsilon, float* mean_out,
                                    float* rstd_out, float* variance_out) {
  __shared__ double shared[kJoinThreads][kWarp];
  const std::int64_t col = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const bool is_column = col < chunks.cols;
  const std::int64_t share = ceil_div(chunks.count, kJoinThreads), first = threadIdx.y * share;
  const std::int64_t last = first + share < chunks.count ? first + share : chunks.count;
  const auto rows_of = [&](std::int64_t chunk) {
    const std::int64_t rest = chunks.rows - chunk * chunks.chunk_rows;
    return static_cast<double>(rest < chunks.chunk_rows ? rest : chunks.chunk_rows);
  };
  const auto total = static_cast<double>(chunks.rows);
  double mean = 0.0, m2 = 0.0;
  for (std::int64_t p = first; is_column && p < last; ++p) {
    mean += rows_of(p) / total * static_cast<double>(moments[2 * p * chunks.cols + col]);
  }
  mean = sum_of_shares(mean, shared);
  for (std::int64_t p = first; is_column && p < last; ++p) {
    const double apart = static_cast<double>(moments[2 * p * chunks.cols + col]) - mean;
    m2 += static_cast<double>(moments[(2 * p + 1) * chunks.cols + col]) + rows_of(p) * apart * apart;
  }
  m2 = sum_of_shares(m2, shared);
  if (threadIdx.y != 0 || !is_column) return;
  mean_out[col] = static_cast<float>(mean);
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
      if (rectify && v[i] < 0.0f) v[i] = 0.0f;  // NaN passes
    }
    store<N>(y + at, v);
  }
}

// Of the two argument structs.
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
