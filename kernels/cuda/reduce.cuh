// Sums over the threads of a warp or block. The number of threads alone decides the order.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The sum over the warp, with the same bits in every lane. All lanes must call.
template <class Value>
__device__ inline Value warp_sum(Value value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

/// The sum over a block of `kBlockThreads`, with the same bits in every thread. All threads must call.
/// `shared` must not be used otherwise between two barriers around the call.
template <int kBlockThreads, class Value>
__device__ inline Value block_sum(Value value, Value (&shared)[kBlockThreads / kWarp]) {
  value = warp_sum(value);
  __syncthreads();  // the previous use of `shared` is over
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  Value sum = shared[0];
#pragma unroll
  for (int w = 1; w < kBlockThreads / kWarp; ++w) sum += shared[w];
  return sum;
}

}  // namespace trireme::cuda
