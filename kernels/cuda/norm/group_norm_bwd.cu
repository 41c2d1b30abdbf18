// Group norm, backward: sums over the chunks of a sample's rows, combined for each sample and group in fp64,
// then the input gradient in one pass. Both passes compute the gradient before SiLU from x. The samples'
// parameter gradients are added in sample order.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/norm/group_norm.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

template <class T>
struct GroupNormArrays {
  const T *dy, *x, *gamma, *beta, *dx_add;  // dx_add may be null
  T* dx;
};

/// Sums that the kernels exchange, in one workspace.
struct GroupNormSums {
  float* chunks;   // [samples * chunks, 2, cols]: sums of g, and of g (x - mean)
  float* samples;  // [samples, 2, cols]: dbeta and dgamma
  float* factors;  // [samples, groups, 2]: dx = scale g + factors[1] (x - mean) + factors[0]
};

// The gradient of N channels before the activation.
template <int N, bool kSilu>
__device__ void gradients_before(const GroupMaps<N>& map, const float (&x)[N], float (&g)[N]) {
  if constexpr (kSilu) {
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] *= silu_derivative(map(x[i], i));
  }
}

template <class T, int N, bool kSilu>
__global__ void __launch_bounds__(kThreads)
    group_sums_kernel(RowChunks chunks, GroupNormArrays<T> a, GroupStatistics statistics, float* sums) {
  const TileShare own = tile_share<N, Order::kLastToFirst>(chunks);
  float sum[N] = {}, sum_x[N] = {};
  if (own.has_columns) {
    GroupMaps<N> map;
    map.read(statistics, own.sample, own.col, a.gamma, a.beta);
    for (std::int64_t row = own.first; row < own.last; row += own.step) {
      const std::int64_t at = row * chunks.cols + own.col;
      float g[N], x[N];
      load<N>(a.dy + at, g);
      load<N>(a.x + at, x);
      gradients_before<N, kSilu>(map, x, g);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum[i] += g[i];
        sum_x[i] += g[i] * (x[i] - map.mean[i]);
      }
    }
  }
  write_tile_sums<N>(chunks, own, sum, sum_x, sums);
}

// One block per sample and group, one channel a warp at a time.
template <class T>
__global__ void __launch_bounds__(kThreads)
    join_group_sums_kernel(RowChunks chunks, GroupNormSums sums, const T* gamma, GroupStatistics statistics) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ double of_warps[2][kWarps];
  const std::int64_t sample = blockIdx.x / statistics.groups, group = blockIdx.x % statistics.groups;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto rstd = static_cast<double>(statistics.rstd[blockIdx.x]);
  const float* const of_sample = sums.chunks + 2 * sample * chunks.count * chunks.cols;
  float* const out = sums.samples + 2 * sample * chunks.cols;
  double weighted = 0.0, weighted_x = 0.0;
  for (int c = warp; c < statistics.width; c += kWarps) {
    const std::int64_t col = group * statistics.width + c;
    double sum = 0.0, sum_x = 0.0;
    for (std::int64_t chunk = lane; chunk < chunks.count; chunk += kWarp) {
      sum += static_cast<double>(of_sample[2 * chunk * chunks.cols + col]);
      sum_x += static_cast<double>(of_sample[(2 * chunk + 1) * chunks.cols + col]);
    }
    sum = warp_sum(sum);
    sum_x = warp_sum(sum_x);
    const auto factor = static_cast<double>(to_float(gamma[col]));
    weighted += factor * sum;
    weighted_x += factor * sum_x;
    if (lane == 0) {
      out[col] = static_cast<float>(sum);
      out[chunks.cols + col] = static_cast<float>(sum_x * rstd);
    }
  }
  if (lane == 0) {
    of_warps[0][warp] = weighted;
    of_warps[1][warp] = weighted_x;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) {
    weighted += of_warps[0][w];
    weighted_x += of_warps[1][w];
  }
  const double total = static_cast<double>(chunks.rows) * statistics.width;
  sums.factors[2 * blockIdx.x] = static_cast<float>(-rstd * weighted / total);
  sums.factors[2 * blockIdx.x + 1] = static_cast<float>(-rstd * rstd * rstd * weighted_x / total);
}

// One thread per channel; null gradients are not wanted.
__global__ void add_samples_kernel(RowChunks chunks, const float* samples, float* dbeta, bool adds_dbeta,
                                   float* dgamma, bool adds_dgamma) {
  const std::int64_t col = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (col >= chunks.cols) return;
  double sum = 0.0, sum_x = 0.0;
#pragma unroll 4
  for (std::int64_t i = 0; i < chunks.samples; ++i) {
    sum += static_cast<double>(samples[2 * i * chunks.cols + col]);
    sum_x += static_cast<double>(samples[(2 * i + 1) * chunks.cols + col]);
  }
  const auto put = [col](float* to, bool adds, double value) {
    if (to != nullptr) to[col] = (adds ? to[col] : 0.0f) + static_cast<float>(value);
  };
  put(dbeta, adds_dbeta, sum);
  put(dgamma, adds_dgamma, sum_x);
}

template <class T, int N, bool kSilu>
__global__ void __launch_bounds__(kThreads)
    group_norm_bwd_kernel(RowChunks chunks, GroupNormArrays<T> a, GroupStatistics statistics,
                          const float* factors) {
  const TileShare own = tile_share<N>(chunks);
  if (!own.has_columns) return;
  GroupMaps<N> map;
  map.read(statistics, own.sample, own.col, a.gamma, a.beta);
  float constant[N], of_x[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::int64_t group = statistics.group_of(own.sample, own.col + i);
    constant[i] = factors[2 * group];
    of_x[i] = factors[2 * group + 1];
  }
  for (std::int64_t row = own.first; row < own.last; row += own.step) {
    const std::int64_t at = row * chunks.cols + own.col;
    float g[N], x[N], added[N] = {};
    load<N>(a.dy + at, g);
    load<N>(a.x + at, x);
    if (a.dx_add != nullptr) load<N>(a.dx_add + at, added);
    gradients_before<N, kSilu>(map, x, g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = map.scale[i] * g[i] + of_x[i] * (x[i] - map.mean[i]) + constant[i] + added[i];
    }
    store<N>(a.dx + at, x);
  }
}

template <class T, int N, bool kSilu>
void run_packed(const KernelContext& exec, const GroupNormBwdArgs& args, const RowChunks& chunks,
                const GroupNormArrays<T>& a) {
  constexpr const char* kOp = "group_norm_bwd";
  const std::int64_t cols = chunks.cols, groups = args.mean.shape[1];
  const GroupStatistics statistics{args.mean.as<float>(), args.rstd.as<float>(), static_cast<int>(groups),
                                   static_cast<int>(cols / groups)};
  const std::int64_t of_chunks = 2 * chunks.samples * chunks.count * cols,
                     of_samples = 2 * chunks.samples * cols;
  const Workspace memory(
      exec, static_cast<std::size_t>(of_chunks + of_samples + 2 * chunks.samples * groups) * sizeof(float));
  float* const base = memory.as<float>();
  const GroupNormSums sums{base, base + of_chunks, base + of_chunks + of_samples};
  launch_column_tiles<N>(exec, kOp, chunks, group_sums_kernel<T, N, kSilu>, chunks, a, statistics,
                         sums.chunks);
  launch(exec, kOp, grid_of(chunks.samples * groups), kThreads, 0, join_group_sums_kernel<T>, chunks, sums,
         a.gamma, statistics);
  const auto wanted = [](TensorView to, GradientMode mode) {
    return mode == GradientMode::kIgnore ? nullptr : to.as<float>();
  };
  launch(exec, kOp, grid_of(ceil_div(cols, kThreads)), kThreads, 0, add_samples_kernel, chunks, sums.samples,
         wanted(args.dbeta, args.dbeta_mode), args.dbeta_mode == GradientMode::kAccumulate,
         wanted(args.dgamma, args.dgamma_mode), args.dgamma_mode == GradientMode::kAccumulate);
  launch_column_tiles<N>(exec, kOp, chunks, group_norm_bwd_kernel<T, N, kSilu>, chunks, a, statistics,
                         sums.factors);
}

template <class T>
void run_typed(const KernelContext& exec, const GroupNormBwdArgs& args, const RowChunks& chunks) {
  const GroupNormArrays<T> a{.dy = args.dy.as<T>(),
                             .x = args.x.as<T>(),
                             .gamma = args.gamma.as<T>(),
                             .beta = args.beta.as<T>(),
                             .dx_add = args.dx_add.as<T>(),
                             .dx = args.dx.as<T>()};
  with_pack<T>(rows_are_packable(chunks.cols, sizeof(T), {a.dy, a.x, a.gamma, a.beta, a.dx_add, a.dx}),
               [&]<int N>(std::integral_constant<int, N>) {
                 if (args.activation == Activation::kSilu)
                   return run_packed<T, N, true>(exec, args, chunks, a);
                 run_packed<T, N, false>(exec, args, chunks, a);
               });
}

}  // namespace

void run_op(const KernelContext& exec, const GroupNormBwdArgs& args) {
  check_dtype("group_norm_bwd", args.x.dtype, {args.dy, args.gamma, args.beta, args.dx_add, args.dx});
  check_dtype("group_norm_bwd", DType::kFloat32, {args.mean, args.rstd, args.dgamma, args.dbeta});
  const RowChunks chunks = sample_chunks(args.x, args.mean.shape[0]);
  if (chunks.samples == 0) return;
  assert(args.gamma.num_elems() == chunks.cols && args.dx.num_elems() == args.x.num_elems());
  assert(chunks.cols % args.mean.shape[1] == 0);
  for_float_type("group_norm_bwd", args.x.dtype, [&]<class T>(T) { run_typed<T>(exec, args, chunks); });
}

}  // namespace trireme::cuda
