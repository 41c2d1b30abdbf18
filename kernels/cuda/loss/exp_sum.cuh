// The maximum of a row and the sum of its exponentials in one pass (Milakov & Gimelshein 2018).
#pragma once

#include <cfloat>
#include <cmath>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {

/// e^x for x <= 0 in two instructions, where expf takes about eight. The relative error is within 2^-21 for x
/// >= -2, and within |x| 2^-23 below. Denormal results become 0. NaN stays NaN, -infinity gives 0.
__device__ inline float exp_below(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kLog2E));
  return power;
#else
  const float power = exp2f(x * kLog2E);
  return power < FLT_MIN ? 0.0f : power;
#endif
}

/// The maximum of some elements, and the sum of exp(x - max). A NaN element makes the sum NaN.
struct ExpSum {
  float max, sum;
};

/// The value for no elements. Its maximum is not -infinity, because infinity minus itself is NaN.
__device__ inline ExpSum no_exps() {
  return {-FLT_MAX, 0.0f};
}

__device__ inline ExpSum join(const ExpSum& a, const ExpSum& b) {
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * exp_below(a.max - max) + b.sum * exp_below(b.max - max)};
}

template <int N>
__device__ inline void include(ExpSum& total, const float (&x)[N]) {
  float max = total.max;
#pragma unroll
  for (int i = 0; i < N; ++i) max = fmaxf(max, x[i]);
  float sum = total.sum * exp_below(total.max - max);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += exp_below(x[i] - max);
  total = {max, sum};
}

/// Joins the values of a warp, with the same bits in every lane. The maximum is computed first, so that all
/// sums are scaled at once.
__device__ inline ExpSum warp_join(const ExpSum& value) {
  float max = value.max;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, offset));
  }
  return {max, warp_sum(value.sum * exp_below(value.max - max))};
}

/// Joins the values of warps, in their order.
template <int kWarps>
__device__ inline ExpSum join_warps(const ExpSum (&warps)[kWarps]) {
  ExpSum total{warps[0].max, 0.0f};
#pragma unroll
  for (int w = 1; w < kWarps; ++w) total.max = fmaxf(total.max, warps[w].max);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total.sum += warps[w].sum * exp_below(warps[w].max - total.max);
  return total;
}

/// Joins the values of a block, with the same bits in every thread. All threads must call, once per kernel;
/// the call is a barrier.
template <int kBlockThreads>
__device__ ExpSum block_join(const ExpSum& value) {
  __shared__ ExpSum warps[kBlockThreads / kWarp];
  const ExpSum own = warp_join(value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  return join_warps(warps);
}

/// Joins the values of a cluster, with the bits that block_join() of one block of all its threads would have.
/// Each block has `board`, of one element per warp, in its dynamic shared memory. A barrier of the cluster.
template <int kBlocks, int kBlockThreads>
__device__ ExpSum cluster_join(const ExpSum& value, ExpSum* board) {
  constexpr int kBlockWarps = kBlockThreads / kWarp;
  const ExpSum own = warp_join(value);
  if (threadIdx.x % kWarp == 0) board[threadIdx.x / kWarp] = own;
  cluster_barrier();
  ExpSum warps[kBlocks * kBlockWarps];
#pragma unroll
  for (int w = 0; w < kBlocks * kBlockWarps; ++w) {
    warps[w] = cluster_shared(board, w / kBlockWarps)[w % kBlockWarps];
  }
  cluster_barrier();
  return join_warps(warps);
}

}  // namespace trireme::cuda
