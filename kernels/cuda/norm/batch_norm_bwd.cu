// Batch norm, backward. Sums over the channels in two stages ([Note: batch statistics on cuda]), then
// computes the input gradient in one pass. If the residual's gradient is wanted, which is dy after the ReLU,
// the first stage writes it, and the last pass reads it in place of dy and y.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/norm/batch_norm.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

/// Source of the ReLU's mask.
enum class Passes : std::uint8_t {
  kAll,    // no ReLU
  kFromX,  // the recomputed result is positive
  kFromY,  // y is positive
};

template <class T>
struct BwdArrays {
  const T *dy, *x, *y;  // y: for kFromY only
  const T *gamma, *beta;
  const float *mean, *rstd;
  T *dx, *dresidual;  // dresidual may be null, and may be dy
};

// Per channel: dx = of_g g + of_x (x - mean) + constant, each [cols].
struct Factors {
  float *of_g, *of_x, *constant;
};

// Elements of a row in their memory format; y for kFromY only.
template <class T, int N, Passes kPasses>
struct RawRow {
  Pack<T, N> dy, x, y;

  __device__ void read(const BwdArrays<T>& a, std::int64_t at) {
    dy = load_pack<N>(a.dy + at);
    x = load_pack<N>(a.x + at);
    if constexpr (kPasses == Passes::kFromY) y = load_pack<N>(a.y + at);
  }
  // The gradient after the ReLU, and x.
  __device__ void convert(const ChannelMaps<N>& map, float (&g)[N], float (&x_out)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      g[i] = to_float(dy.elems[i]);
      x_out[i] = to_float(x.elems[i]);
      if constexpr (kPasses == Passes::kFromX) g[i] = map(x_out[i], i) <= 0.0f ? 0.0f : g[i];
      if constexpr (kPasses == Passes::kFromY) g[i] = to_float(y.elems[i]) <= 0.0f ? 0.0f : g[i];
    }
  }
};

constexpr int kHeldRows = 2;  // per thread, in flight
constexpr int kBlocks = 3;    // per multiprocessor, as registers allow

// sums[chunk]: sums of g [cols], then of g (x - mean) [cols]. dresidual = g.
template <class T, int N, Passes kPasses>
__global__ void __launch_bounds__(kThreads, kBlocks)
    sums_kernel(RowChunks chunks, BwdArrays<T> a, float* sums) {
  const TileShare own = tile_share<N, Order::kLastToFirst>(chunks);
  float sum[N] = {}, sum_x[N] = {};
  if (own.has_columns) {
    ChannelMaps<N> map;
    map.read(a.mean, a.rstd, a.gamma, a.beta, own.col);
    const auto add = [&](const RawRow<T, N, kPasses>& row, std::int64_t at) {
      float g[N], x[N];
      row.convert(map, g, x);
      if (a.dresidual != nullptr) store<N>(a.dresidual + at, g);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum[i] += g[i];
        sum_x[i] += g[i] * (x[i] - map.mean[i]);
      }
    };
    const std::int64_t stride = own.step * chunks.cols;
    std::int64_t at = own.first * chunks.cols + own.col;
    int rest = own.rows_of(threadIdx.y);
    for (; rest >= kHeldRows; rest -= kHeldRows, at += kHeldRows * stride) {
      RawRow<T, N, kPasses> held[kHeldRows];
#pragma unroll
      for (int r = 0; r < kHeldRows; ++r) held[r].read(a, at + r * stride);
#pragma unroll
      for (int r = 0; r < kHeldRows; ++r) add(held[r], at + r * stride);
    }
    for (; rest > 0; --rest, at += stride) {
      RawRow<T, N, kPasses> row;
      row.read(a, at);
      add(row, at);
    }
  }
  write_tile_sums<N>(chunks, own, sum, sum_x, sums);
}

/// The gradient of a parameter; null if it is not wanted.
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
__global__ void __launch_bounds__(kJoinCols* kJoinShares)
    join_sums_kernel(RowChunks chunks, const float* sums, const T* gamma, const float* rstd_in,
                     ChannelGradient dgamma, ChannelGradient dbeta, Factors factors) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kJoinCols + threadIdx.x;
  const bool is_column = col < chunks.cols;
  ChannelSums own{0.0, 0.0};
  if (is_column) {
    own = sum_of_chunks(chunks, sums, col, [](std::int64_t, float of_g, float of_x) {
      return ChannelSums{static_cast<double>(of_g), static_cast<double>(of_x)};
    });
  }
  const auto [sum, sum_x] = sum_of_shares(own);
  if (threadIdx.y != 0 || !is_column) return;
  const auto rstd = static_cast<double>(rstd_in[col]), total = static_cast<double>(chunks.rows);
  factors.of_g[col] = to_float(gamma[col]) * rstd_in[col];
  const auto scale = static_cast<double>(factors.of_g[col]);  // rounded: dx of a single row is zero
  dbeta.write(col, sum);
  dgamma.write(col, sum_x * rstd);
  factors.of_x[col] = static_cast<float>(-scale * rstd * rstd * sum_x / total);
  factors.constant[col] = static_cast<float>(-scale * sum / total);
}

// Computes dx. Does not access dresidual.
template <class T, int N, Passes kPasses>
__global__ void __launch_bounds__(kThreads, kBlocks)
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
    RawRow<T, N, kPasses> raw;
    raw.read(a, at);
    float g[N], x[N];
    raw.convert(map, g, x);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = of_g[i] * g[i] + of_x[i] * (x[i] - map.mean[i]) + constant[i];
    store<N>(a.dx + at, x);
  }
}

// Calls run(std::integral_constant<Passes, ...>).
template <class Run>
void with_passes(const BatchNormBwdArgs& args, const Run& run) {
  if (args.rectify == Rectify::kNo) return run(std::integral_constant<Passes, Passes::kAll>{});
  if (args.y.defined()) return run(std::integral_constant<Passes, Passes::kFromY>{});
  run(std::integral_constant<Passes, Passes::kFromX>{});
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
                       .dresidual = args.dresidual.as<T>()};
  // Aligns each factor to 16 bytes.
  const std::int64_t pitch = ceil_div(chunks.cols, 4) * 4, num_sums = 2 * chunks.count * chunks.cols;
  const Workspace memory(exec, static_cast<std::size_t>(3 * pitch + num_sums) * sizeof(float));
  float* const base = memory.as<float>();
  const Factors factors{base, base + pitch, base + 2 * pitch};
  float* const sums = base + 3 * pitch;
  with_pack<T>(rows_are_packable(chunks.cols, sizeof(T),
                                 {a.dy, a.x, a.y, a.gamma, a.beta, a.mean, a.rstd, a.dx, a.dresidual, base}),
               [&]<int N>(std::integral_constant<int, N>) {
                 with_passes(args, [&]<Passes kPasses>(std::integral_constant<Passes, kPasses>) {
                   launch_column_tiles<N>(exec, kOp, chunks, sums_kernel<T, N, kPasses>, chunks, a, sums);
                   launch_join(exec, kOp, chunks.cols, join_sums_kernel<T>, chunks, sums, a.gamma, a.rstd,
                               channel_gradient(args.dgamma, args.dgamma_mode),
                               channel_gradient(args.dbeta, args.dbeta_mode), factors);
                   if (a.dresidual == nullptr) {
                     return launch_column_tiles<N>(exec, kOp, chunks, batch_norm_bwd_kernel<T, N, kPasses>,
                                                   chunks, a, factors);
                   }
                   BwdArrays<T> behind = a;
                   behind.dy = a.dresidual;
                   launch_column_tiles<N>(exec, kOp, chunks, batch_norm_bwd_kernel<T, N, Passes::kAll>,
                                          chunks, behind, factors);
                 });
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
