// The maximum of a row and the sum of its exponentials in one pass (Milakov & Gimelshein 2018).
#pragma once

#include <cfloat>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {

/// Sum of exp(x - max) over some elements, and their maximum. NaN in any element makes the sum NaN.
struct ExpSum {
  float max, sum;
};

/// Of no elements; not of infinity, whose difference to itself is NaN.
__device__ inline ExpSum no_exps() {
  return {-FLT_MAX, 0.0f};
}

__device__ inline ExpSum join(const ExpSum& a, const ExpSum& b) {
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max)};
}

template <int N>
__device__ inline void include(ExpSum& total, const float (&x)[N]) {
  float max = total.max;
#pragma unroll
  for (int i = 0; i < N; ++i) max = fmaxf(max, x[i]);
  float sum = total.sum * expf(total.max - max);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += expf(x[i] - max);
  total = {max, sum};
}

/// Of a block, the same bits in every thread. All threads call, once in a kernel; it is a barrier.
template <int kBlockThreads>
__device__ ExpSum block_join(ExpSum value) {
  __shared__ ExpSum warps[kBlockThreads / kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = join(value, {__shfl_xor_sync(kAllLanes, value.max, offset),
                         __shfl_xor_sync(kAllLanes, value.sum, offset)});
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  ExpSum total = warps[0];
  for (int w = 1; w < kBlockThreads / kWarp; ++w) total = join(total, warps[w]);
  return total;
}

}  // namespace trireme::cuda
