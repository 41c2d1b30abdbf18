// Kernels that compute each element of a result from the same element of other tensors.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {

// One thread per N neighbouring elements.
template <int N, class F, class Y, class... X>
__global__ void map_kernel(F f, std::int64_t n, Y* y, const X*... x) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= n) {
    const auto map_packs = [&](const auto&... packs) {
      float out[N];
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = f(to_float(packs.elems[i])...);
      store<N>(y + first, out);
    };
    return map_packs(load_pack<N>(x + first)...);
  }
  for (std::int64_t i = first; i < n; ++i) y[i] = from_float<Y>(f(to_float(x[i])...));
}

/// y[i] = f(x[i]...) in fp32 for i < n. Accesses N elements at a time if all pointers are aligned. y may be
/// one of x.
template <int N, class F, class Y, class... X>
void map(const KernelContext& exec, const char* op, const F& f, std::int64_t n, Y* y, const X*... x) {
  if (n == 0) return;
  if (are_aligned({y, x...})) {
    launch(exec, op, grid_of(ceil_div(n, N * kThreads)), kThreads, 0, map_kernel<N, F, Y, X...>, f, n, y,
           x...);
  } else {
    launch(exec, op, grid_of(ceil_div(n, kThreads)), kThreads, 0, map_kernel<1, F, Y, X...>, f, n, y, x...);
  }
}

}  // namespace trireme::cuda
