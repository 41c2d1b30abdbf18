// See [Note: gradient norm] in kernels/backend_step_ops.h.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr int kBlocksPerGroup = 8;  // norm blocks, one warp each, per thread block

template <class T, int N>
__global__ void squared_norm_blocks_kernel(const T* x, float* partials, std::int64_t num_blocks) {
  const std::int64_t block = std::int64_t{blockIdx.x} * kBlocksPerGroup + threadIdx.x / kWarp;
  if (block >= num_blocks) return;  // a whole warp
  x += block * kNormBlock + threadIdx.x % kWarp * N;
  float sum = 0.0f;
#pragma unroll 8
  for (int first = 0; first < kNormBlock; first += kWarp * N) {
    float v[N];
    load<N>(x + first, v);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += v[i] * v[i];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) partials[block] = sum;
}

constexpr int kSumThreads = 1024;

// One block. The number of partials fixes the order.
__global__ void __launch_bounds__(kSumThreads)
    clip_coefficient_kernel(const float* partials, std::int64_t n, float max_norm, float* norm_out,
                            float* clip, const float* gradient_scale, const float* divisor) {
  __shared__ double shared[kSumThreads / kWarp];
  double sum = 0.0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < n; i += kSumThreads) sum += partials[i];
  sum = block_sum<kSumThreads>(sum, shared);
  if (threadIdx.x != 0) return;
  double scale = gradient_scale != nullptr ? *gradient_scale : 1.0;
  if (divisor != nullptr) scale *= *divisor;
  const double norm = sqrt(sum) / scale;
  *norm_out = static_cast<float>(norm);
  // Written so that a NaN norm gives a NaN coefficient.
  const double ratio = static_cast<double>(max_norm) / (norm + 1e-6);
  *clip = static_cast<float>((max_norm <= 0.0f || ratio > 1.0 ? 1.0 : ratio) / scale);
}

// One block. The sum of the counts is exact in any order.
__global__ void __launch_bounds__(kSumThreads)
    divide_losses_kernel(const float* counted, std::int64_t ranks, std::int64_t count, float inv_num_targets,
                         float* losses, float* divisor_out) {
  __shared__ double shared[kSumThreads / kWarp];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < ranks * count; i += kSumThreads) {
    sum += counted[(2 * (i / count) + 1) * count + i % count];
  }
  sum = block_sum<kSumThreads>(sum, shared);  // complete in thread 0
  if (threadIdx.x == 0) {
    const double inverse = inv_num_targets;
    *divisor_out = static_cast<float>(inverse == 0.0 ? 1.0 : fmax(1.0, sum) * inverse);
  }
  __syncthreads();
  const float divisor = *divisor_out;
  for (std::int64_t i = threadIdx.x; i < ranks * count; i += kSumThreads) {
    losses[i] = counted[2 * (i / count) * count + i % count] / divisor;
  }
}

}  // namespace

void run_op(const KernelContext& exec, const SquaredNormBlocksArgs& args) {
  const std::int64_t num_blocks = args.partials.num_elems();
  assert(args.x.num_elems() == num_blocks * kNormBlock);
  check_dtype("squared_norm_blocks", DType::kFloat32, {args.partials});
  if (num_blocks == 0) return;
  for_float_type("squared_norm_blocks", args.x.dtype, [&]<class T>(T) {
    with_pack<T>(are_aligned({args.x.data}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "squared_norm_blocks", grid_of(ceil_div(num_blocks, kBlocksPerGroup)),
             kBlocksPerGroup * kWarp, 0, squared_norm_blocks_kernel<T, N>, args.x.as<T>(),
             args.partials.as<float>(), num_blocks);
    });
  });
}

void run_op(const KernelContext& exec, const DivideLossesArgs& args) {
  check_dtype("divide_losses", DType::kFloat32, {args.counted, args.losses, args.divisor});
  const std::int64_t ranks = args.counted.shape[0], count = args.counted.shape[2];
  assert(args.losses.num_elems() == ranks * count);
  launch(exec, "divide_losses", 1, kSumThreads, 0, divide_losses_kernel, args.counted.as<float>(), ranks,
         count, args.inv_num_targets, args.losses.as<float>(), args.divisor.as<float>());
}

void run_op(const KernelContext& exec, const ClipCoefficientArgs& args) {
  check_dtype("clip_coefficient", DType::kFloat32,
              {args.partials, args.norm, args.clip, args.gradient_scale, args.divisor});
  launch(exec, "clip_coefficient", 1, kSumThreads, 0, clip_coefficient_kernel, args.partials.as<float>(),
         args.partials.num_elems(), args.max_norm, args.norm.as<float>(), args.clip.as<float>(),
         args.gradient_scale.as<float>(), args.divisor.as<float>());
}

}  // namespace trireme::cuda
