// Group norm (Wu & He 2018), forward. Statistics of channels in chunks of a sample's rows ([Note: batch
// statistics on cuda]), combined over the chunks and channels of a group in fp64. Then one pass applies the
// affine map and SiLU.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/norm/channel_moments.cuh"
#include "kernels/cuda/norm/group_norm.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

// One block per sample and group. Differences to the mean of the first channel and chunk keep the digits of
// a large mean.
__global__ void __launch_bounds__(kThreads)
    join_groups_kernel(RowChunks chunks, const float* moments, int groups, float epsilon, float* mean_out,
                       float* rstd_out) {
  __shared__ double shared[kThreads / kWarp];
  const int width = static_cast<int>(chunks.cols / groups), group = blockIdx.x % groups;
  const std::int64_t sample = blockIdx.x / groups;
  const float* const of_group = moments + 2 * sample * chunks.count * chunks.cols + group * width;
  const auto shift = static_cast<double>(of_group[0]);
  double sum = 0.0, squares = 0.0;
  for (std::int64_t i = threadIdx.x; i < chunks.count * width; i += kThreads) {
    const std::int64_t chunk = i / width, rest = chunks.rows - chunk * chunks.chunk_rows;
    const float* const moment = of_group + 2 * chunk * chunks.cols + i % width;
    const auto rows = static_cast<double>(rest < chunks.chunk_rows ? rest : chunks.chunk_rows);
    const double apart = static_cast<double>(moment[0]) - shift;
    sum += rows * apart;
    squares += static_cast<double>(moment[chunks.cols]) + rows * apart * apart;
  }
  sum = block_sum<kThreads>(sum, shared);
  squares = block_sum<kThreads>(squares, shared);
  if (threadIdx.x != 0) return;
  const double total = static_cast<double>(chunks.rows) * width, mean = sum / total;
  mean_out[blockIdx.x] = static_cast<float>(shift + mean);
  rstd_out[blockIdx.x] =
      static_cast<float>(1.0 / sqrt((squares - sum * mean) / total + static_cast<double>(epsilon)));
}

template <class T, int N, bool kSilu>
__global__ void __launch_bounds__(kThreads)
    group_norm_kernel(RowChunks chunks, const T* x, GroupStatistics statistics, const T* gamma, const T* beta,
                      T* y) {
  const TileShare own = tile_share<N>(chunks);
  if (!own.has_columns) return;
  GroupMaps<N> map;
  map.read(statistics, own.sample, own.col, gamma, beta);
  for (std::int64_t row = own.first; row < own.last; row += own.step) {
    const std::int64_t at = row * chunks.cols + own.col;
    float v[N];
    load<N>(x + at, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = map(v[i], i);
      if constexpr (kSilu) v[i] = silu(v[i]);
    }
    store<N>(y + at, v);
  }
}

template <class T>
void run_typed(const KernelContext& exec, const GroupNormFwdArgs& args, const RowChunks& chunks) {
  constexpr const char* kOp = "group_norm_fwd";
  const T *x = args.x.as<T>(), *gamma = args.gamma.as<T>(), *beta = args.beta.as<T>();
  T* y = args.y.as<T>();
  const int groups = static_cast<int>(args.mean.shape[1]);
  float *mean = args.mean.as<float>(), *rstd = args.rstd.as<float>();
  const GroupStatistics statistics{mean, rstd, groups, static_cast<int>(chunks.cols / groups)};
  const Workspace moments(
      exec, static_cast<std::size_t>(2 * chunks.samples * chunks.count * chunks.cols) * sizeof(float));
  with_pack<T>(rows_are_packable(chunks.cols, sizeof(T), {x, gamma, beta, y}),
               [&]<int N>(std::integral_constant<int, N>) {
                 launch_column_tiles<N>(exec, kOp, chunks, moments_kernel<T, N>, chunks, x,
                                        moments.as<float>());
                 launch(exec, kOp, grid_of(chunks.samples * groups), kThreads, 0, join_groups_kernel, chunks,
                        moments.as<float>(), groups, args.epsilon, mean, rstd);
                 launch_column_tiles<N>(exec, kOp, chunks,
                                        args.activation == Activation::kSilu ? group_norm_kernel<T, N, true>
                                                                             : group_norm_kernel<T, N, false>,
                                        chunks, x, statistics, gamma, beta, y);
               });
}

}  // namespace

void run_op(const KernelContext& exec, const GroupNormFwdArgs& args) {
  check_dtype("group_norm_fwd", args.x.dtype, {args.gamma, args.beta, args.y});
  check_dtype("group_norm_fwd", DType::kFloat32, {args.mean, args.rstd});
  const RowChunks chunks = sample_chunks(args.x, args.mean.shape[0]);
  if (chunks.samples == 0) return;
  assert(args.gamma.num_elems() == chunks.cols && args.beta.num_elems() == chunks.cols);
  assert(chunks.cols % args.mean.shape[1] == 0);
  for_float_type("group_norm_fwd", args.x.dtype, [&]<class T>(T) { run_typed<T>(exec, args, chunks); });
}

}  // namespace trireme::cuda
