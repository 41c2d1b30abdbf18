// Layer norm (Ba et al. 2016) and RMS norm (Zhang & Sennrich 2019), forward. One warp per row.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowsPerBlock = 4;

// The row is read three times; for RMS norm (mean_out null), twice. All but the first read hit the L1 cache.
template <class T, int N>
__global__ void __launch_bounds__(kRowsPerBlock* kWarp)
    layer_norm_fwd_kernel(const T* x, const T* gamma, const T* beta, T* y, float* mean_out, float* rstd_out,
                          std::int64_t rows, std::int64_t cols, float epsilon, float gamma_center) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp;
  if (row >= rows) return;  // a whole warp
  const std::int64_t first = threadIdx.x % kWarp * N;
  constexpr std::int64_t kStride = kWarp * N;
  x += row * cols;
  y += row * cols;
  const float inverse_cols = 1.0f / static_cast<float>(cols);

  float mean = 0.0f;
  if (mean_out != nullptr) {
    float sum = 0.0f;
    for (std::int64_t c = first; c < cols; c += kStride) {
      float v[N];
      load<N>(x + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += v[i];
    }
    mean = warp_sum(sum) * inverse_cols;
  }
  float squares = 0.0f;
  for (std::int64_t c = first; c < cols; c += kStride) {
    float v[N];
    load<N>(x + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (v[i] - mean) * (v[i] - mean);
  }
  const float rstd = 1.0f / sqrtf(warp_sum(squares) * inverse_cols + epsilon);
  for (std::int64_t c = first; c < cols; c += kStride) {
    float v[N], g[N], b[N] = {};
    load<N>(x + c, v);
    load<N>(gamma + c, g);
    if (beta != nullptr) load<N>(beta + c, b);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = (v[i] - mean) * rstd * (g[i] + gamma_center) + b[i];
    store<N>(y + c, v);
  }
  if (threadIdx.x % kWarp == 0) {
    if (mean_out != nullptr) mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}

}  // namespace

void run_op(const KernelContext& exec, const LayerNormFwdArgs& args) {
  const std::int64_t cols = args.gamma.num_elems(), rows = args.rstd.num_elems();
  assert(args.x.num_elems() == rows * cols && args.y.num_elems() == rows * cols);
  check_dtype("layer_norm_fwd", args.x.dtype, {args.gamma, args.beta, args.y});
  check_dtype("layer_norm_fwd", DType::kFloat32, {args.mean, args.rstd});
  if (rows == 0) return;
  for_float_type("layer_norm_fwd", args.x.dtype, [&]<class T>(T) {
    const T *x = args.x.as<T>(), *gamma = args.gamma.as<T>(), *beta = args.beta.as<T>();
    T* y = args.y.as<T>();
    with_pack<T>(
        rows_are_packable(cols, sizeof(T), {x, gamma, beta, y}), [&]<int N>(std::integral_constant<int, N>) {
          launch(exec, "layer_norm_fwd", grid_of(ceil_div(rows, kRowsPerBlock)), kRowsPerBlock * kWarp, 0,
                 layer_norm_fwd_kernel<T, N>, x, gamma, beta, y, args.mean.as<float>(), args.rstd.as<float>(),
                 rows, cols, args.epsilon, args.gamma_center);
        });
  });
}

}  // namespace trireme::cuda
