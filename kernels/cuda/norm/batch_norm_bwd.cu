// Batch norm, backward: the channels' sums in two stages ([Note: batch statistics on cuda]), then the
// gradients of the input in one pass.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/norm/batch_norm.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

/// The source that tells which gradients pass the rectifier.
enum class Passes : std::uint8_t {
  kAll,    // there is none
  kFromX,  // those whose result, computed again, is positive
  kFromY,  // those whose y is positive
};

template <class T>
struct BwdArrays {
  const T *dy, *x, *y;  // y: for kFromY alone
  const T *gamma, *beta;
  const float *mean, *rstd;
  T *dx, *dresidual;  // dresidual may be null
  Passes passes;
};

// By channel: dx = of_g g + of_x (x - mean) + constant, each [cols].
struct Factors {
  float *of_g, *of_x, *constant;
};

// The gradient behind the rectifier, and x, at element `at`.
template <class T, int N>
__device__ inline void load_gradient(const BwdArrays<T>& a, const ChannelMaps<N>& map, std::int64_t at,
                                     float (&g)[N], float (&x)[N]) {
  load<N>(a.dy + at, g);
  load<N>(a.x + at, x);
  if (a.passes == Passes::kFromX) {
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = map(x[i], i) <= 0.0f ? 0.0f : g[i];
  } else if (a.passes == Passes::kFromY) {
    float y[N];
    load<N>(a.y + at, y);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = y[i] <= 0.0f ? 0.0f : g[i];
  }
}

// sums[chunk]: of g [cols], then of g (x - mean) [cols].
template <class T, int N>
__global__ void __launch_bounds__(kThreads) sums_kernel(RowChunks chunks, BwdArrays<T> a, float* sums) {
  __shared__ float shared[kThreads * N];
  const TileShare own = tile_share<N>(chunks);
  float sum[N] = {}, sum_x[N] = {};
  if (own.has_columns) {
    ChannelMaps<N> map;
    map.read(a.mean, a.rstd, a.gamma, a.beta, own.col);
    for (std::int64_t row = own.first; row < own.last; row += own.step) {
      float g[N], x[N];
      load_gradient(a, map, row * chunks.cols + own.col, g, x);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum[i] += g[i];
        sum_x[i] += g[i] * (x[i] - map.mean[i]);
      }
    }
  }
  sum_over_rows<N>(sum, shared);
  sum_over_rows<N>(sum_x, shared);
  if (threadIdx.y != 0 || !own.has_columns) return;
  float* out = sums + 2 * blockIdx.x * chunks.cols + own.col;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    out[i] = sum[i];
    out[chunks.cols + i] = sum_x[i];
  }
}

/// A parameter's gradient: null where it is not wanted.
struct ChannelGradient {
  float* to;
  bool accumulate;

  __device__ void write(std::int64_t col, double value) const {
    if (to == nullptr) return;
    to[col] = accumulate ? to[col] + static_cast<float>(value) : static_cast<float>(value);
  }
};

ChannelGradient channel_gradient(TensorView to, GradientMode mode) {
  return {mode == GradientMode::kIgnore ? nullptr : to.as<float>(), mode == GradientMode::kAccumulate};
}

template <class T>
__global__ void join_sums_kernel(RowChunks chunks, const float* sums, const T* gamma, const float* rstd_in,
                                 ChannelGradient dgamma, ChannelGradient dbeta, Factors factors) {
  __shared__ double shared[kJoinThreads][kWarp];
  const std::int64_t col = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const bool is_column = col < chunks.cols;
  const std::int64_t share = ceil_div(chunks.count, kJoinThreads), first = threadIdx.y * share;
  const std::int64_t last = first + share < chunks.count ? first + share : chunks.count;
  double sum = 0.0, sum_x = 0.0;
  for (std::int64_t p = first; is_column && p < last; ++p) {
    sum += static_cast<double>(sums[2 * p * chunks.cols + col]);
    sum_x += static_cast<double>(sums[(2 * p + 1) * chunks.cols + col]);
  }
  sum = sum_of_shares(sum, shared);
  sum_x = sum_of_shares(sum_x, shared);
  if (threadIdx.y != 0 || !is_column) return;
  const auto rstd = static_cast<double>(rstd_in[col]), total = static_cast<double>(chunks.rows);
  factors.of_g[col] = to_float(gamma[col]) * rstd_in[col];
  const auto scale = static_cast<double>(factors.of_g[col]);  // as rounded: a single row's dx is zero
  dbeta.write(col, sum);
  dgamma.write(col, sum_x * rstd);
  factors.of_x[col] = static_cast<float>(-scale * rstd * rstd * sum_x / total);
  factors.constant[col] = static_cast<float>(-scale * sum / total);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    batch_norm_bwd_kernel(RowChunks chunks, BwdArrays<T> a, Factors factors) {
  const TileShare own = tile_share<N>(chunks);
  if (!own.has_columns) return;
  ChannelMaps<N> map;
  map.read(a.mean, a.rstd, a.gamma, a.beta, own.col);
  float of_g[N], of_x[N], constant[N];
  load<N>(factors.of_g + own.col, of_g);
  load<N>(factors.of_x + own.col, of_x);
  load<N>(factors.constant + own.col, constant);
  for (std::int64_t row = own.first; row < own.last; row += own.step) {
    const std::int64_t at = row * chunks.cols + own.col;
    float g[N], x[N];
    load_gradient(a, map, at, g, x);
    if (a.dresidual != nullptr) store<N>(a.dresidual + at, g);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = of_g[i] * g[i] + of_x[i] * (x[i] - map.mean[i]) + constant[i];
    store<N>(a.dx + at, x);
  }
}

Passes passes_of(const BatchNormBwdArgs& args) {
  if (args.rectify == Rectify::kNo) return Passes::kAll;
  return args.y.defined() ? Passes::kFromY : Passes::kFromX;
}

template <class T>
void run_typed(const KernelContext& exec, const BatchNormBwdArgs& args, const RowChunks& chunks) {
  constexpr const char* kOp = "batch_norm_bwd";
  const BwdArrays<T> a{.dy = args.dy.as<T>(),
                       .x = args.x.as<T>(),
                       .y = args.y.as<T>(),
                       .gamma = args.gamma.as<T>(),
                       .beta = args.beta.as<T>(),
                       .mean = args.mean.as<float>(),
                       .rstd = args.rstd.as<float>(),
                       .dx = args.dx.as<T>(),
                       .dresidual = args.dresidual.as<T>(),
                       .passes = passes_of(args)};
  // Each factor starts on 16 bytes.
  const std::int64_t pitch = ceil_div(chunks.cols, 4) * 4, num_sums = 2 * chunks.count * chunks.cols;
  const Workspace memory(exec, static_cast<std::size_t>(3 * pitch + num_sums) * sizeof(float));
  float* const base = memory.as<float>();
  const Factors factors{base, base + pitch, base + 2 * pitch};
  float* const sums = base + 3 * pitch;
  with_pack<T>(rows_are_packable(chunks.cols, sizeof(T),
                                 {a.dy, a.x, a.y, a.gamma, a.beta, a.mean, a.rstd, a.dx, a.dresidual, base}),
               [&]<int N>(std::integral_constant<int, N>) {
                 launch_column_tiles<N>(exec, kOp, chunks, sums_kernel<T, N>, chunks, a, sums);
                 launch_join(exec, kOp, chunks.cols, join_sums_kernel<T>, chunks, sums, a.gamma, a.rstd,
                             channel_gradient(args.dgamma, args.dgamma_mode),
                             channel_gradient(args.dbeta, args.dbeta_mode), factors);
                 launch_column_tiles<N>(exec, kOp, chunks, batch_norm_bwd_kernel<T, N>, chunks, a, factors);
               });
}

}  // namespace

void run_op(const KernelContext& exec, const BatchNormBwdArgs& args) {
  check_dtype("batch_norm_bwd", args.x.dtype,
              {args.dy, args.y, args.gamma, args.beta, args.dx, args.dresidual});
  check_dtype("batch_norm_bwd", DType::kFloat32, {args.mean, args.rstd, args.dgamma, args.dbeta});
  const std::int64_t cols = args.x.shape.dim(-1), rows = cols == 0 ? 0 : args.x.num_elems() / cols;
  if (rows == 0) return;
  assert(args.gamma.num_elems() == cols && args.dx.num_elems() == rows * cols);
  for_float_type("batch_norm_bwd", args.x.dtype,
                 [&]<class T>(T) { run_typed<T>(exec, args, row_chunks(rows, cols)); });
}

}  // namespace trireme::cuda
