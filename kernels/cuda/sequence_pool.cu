// Pools all tokens into one, weighted by the softmax of their scores. One block per sample.
#include <cassert>
#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr int kPoolThreads = 128;

// Every thread sums the exponentials of all tokens in order; there are only a few hundred.
template <class T>
__global__ void sequence_pool_fwd_kernel(const T* x, const T* scores, float* weights, T* y,
                                         std::int64_t tokens, std::int64_t cols) {
  const std::int64_t b = blockIdx.x;
  const T* own_scores = scores + b * tokens;
  float* own_weights = weights + b * tokens;
  float largest = -INFINITY, sum = 0.0f;
  for (std::int64_t n = 0; n < tokens; ++n) largest = fmaxf(largest, to_float(own_scores[n]));
  for (std::int64_t n = 0; n < tokens; ++n) sum += expf(to_float(own_scores[n]) - largest);
  for (std::int64_t n = threadIdx.x; n < tokens; n += kPoolThreads) {
    own_weights[n] = expf(to_float(own_scores[n]) - largest) / sum;
  }
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < cols; c += kPoolThreads) {
    float pooled = 0.0f;
    for (std::int64_t n = 0; n < tokens; ++n)
      pooled += own_weights[n] * to_float(x[(b * tokens + n) * cols + c]);
    y[b * cols + c] = from_float<T>(pooled);
  }
}

template <class T>
__global__ void sequence_pool_bwd_kernel(const T* dy, const T* x, const float* weights, T* dx, T* dscores,
                                         std::int64_t tokens, std::int64_t cols) {
  __shared__ float partials[kPoolThreads / kWarp];
  const std::int64_t b = blockIdx.x;
  const float* own_weights = weights + b * tokens;
  const auto gradient_of_weight = [&](std::int64_t n) {
    float dot = 0.0f;
    for (std::int64_t c = threadIdx.x; c < cols; c += kPoolThreads) {
      dot += to_float(dy[b * cols + c]) * to_float(x[(b * tokens + n) * cols + c]);
    }
    return block_sum<kPoolThreads>(dot, partials);
  };
  float mean = 0.0f;
  for (std::int64_t n = 0; n < tokens; ++n) mean += own_weights[n] * gradient_of_weight(n);
  for (std::int64_t n = 0; n < tokens; ++n) {
    // Recomputed, because storing it would need memory for all tokens.
    const float gradient = own_weights[n] * (gradient_of_weight(n) - mean);
    if (threadIdx.x == 0) dscores[b * tokens + n] = from_float<T>(gradient);
    for (std::int64_t c = threadIdx.x; c < cols; c += kPoolThreads) {
      dx[(b * tokens + n) * cols + c] = from_float<T>(own_weights[n] * to_float(dy[b * cols + c]));
    }
  }
}

}  // namespace

void run_op(const KernelContext& exec, const SequencePoolFwdArgs& args) {
  const std::int64_t samples = args.x.shape[0], tokens = args.x.shape[1], cols = args.x.shape[2];
  check_dtype("sequence_pool_fwd", args.x.dtype, {args.scores, args.y});
  check_dtype("sequence_pool_fwd", DType::kFloat32, {args.weights});
  if (tokens == 0) return fill_zero(exec, args.y);
  if (samples == 0) return;
  for_float_type("sequence_pool_fwd", args.x.dtype, [&]<class T>(T) {
    launch(exec, "sequence_pool_fwd", grid_of(samples), kPoolThreads, 0, sequence_pool_fwd_kernel<T>,
           args.x.as<T>(), args.scores.as<T>(), args.weights.as<float>(), args.y.as<T>(), tokens, cols);
  });
}

void run_op(const KernelContext& exec, const SequencePoolBwdArgs& args) {
  const std::int64_t samples = args.x.shape[0], tokens = args.x.shape[1], cols = args.x.shape[2];
  check_dtype("sequence_pool_bwd", args.x.dtype, {args.dy, args.dx, args.dscores});
  check_dtype("sequence_pool_bwd", DType::kFloat32, {args.weights});
  if (samples == 0 || tokens == 0) return;
  for_float_type("sequence_pool_bwd", args.x.dtype, [&]<class T>(T) {
    launch(exec, "sequence_pool_bwd", grid_of(samples), kPoolThreads, 0, sequence_pool_bwd_kernel<T>,
           args.dy.as<T>(), args.x.as<T>(), args.weights.as<float>(), args.dx.as<T>(), args.dscores.as<T>(),
           tokens, cols);
  });
}

}  // namespace trireme::cuda
