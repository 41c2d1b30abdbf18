#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

template <class T, int N>
__global__ void relu_kernel(const T* x, T* y, std::int64_t n) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= n) {
    float v[N];
    load<N>(x + first, v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = v[i] < 0.0f ? 0.0f : v[i];  // NaN passes
    store<N>(y + first, v);
    return;
  }
  for (std::int64_t i = first; i < n; ++i) {
    const float v = to_float(x[i]);
    y[i] = from_float<T>(v < 0.0f ? 0.0f : v);
  }
}

template <class T, int N>
__global__ void relu_bwd_kernel(const T* dy, const T* y, T* dx, std::int64_t n) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= n) {
    float g[N], v[N];
    load<N>(dy + first, g);
    load<N>(y + first, v);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = v[i] <= 0.0f ? 0.0f : g[i];
    store<N>(dx + first, g);
    return;
  }
  for (std::int64_t i = first; i < n; ++i) dx[i] = to_float(y[i]) <= 0.0f ? from_float<T>(0.0f) : dy[i];
}

}  // namespace

void run_op(const KernelContext& exec, const ReluArgs& args) {
  const std::int64_t n = args.y.num_elems();
  assert(args.x.num_elems() == n);
  check_dtype("relu", args.y.dtype, {args.x});
  if (n == 0) return;
  for_float_type("relu", args.y.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    T* y = args.y.as<T>();
    if (are_aligned({x, y})) {
      launch(exec, "relu", grid_of(ceil_div(n, kPack<T> * kThreads)), kThreads, 0, relu_kernel<T, kPack<T>>,
             x, y, n);
    } else {
      launch(exec, "relu", grid_of(ceil_div(n, kThreads)), kThreads, 0, relu_kernel<T, 1>, x, y, n);
    }
  });
}

void run_op(const KernelContext& exec, const ReluBwdArgs& args) {
  const std::int64_t n = args.dx.num_elems();
  assert(args.dy.num_elems() == n && args.y.num_elems() == n);
  check_dtype("relu_bwd", args.dx.dtype, {args.dy, args.y});
  if (n == 0) return;
  for_float_type("relu_bwd", args.dx.dtype, [&]<class T>(T) {
    const T *dy = args.dy.as<T>(), *y = args.y.as<T>();
    T* dx = args.dx.as<T>();
    if (are_aligned({dy, y, dx})) {
      launch(exec, "relu_bwd", grid_of(ceil_div(n, kPack<T> * kThreads)), kThreads, 0,
             relu_bwd_kernel<T, kPack<T>>, dy, y, dx, n);
    } else {
      launch(exec, "relu_bwd", grid_of(ceil_div(n, kThreads)), kThreads, 0, relu_bwd_kernel<T, 1>, dy, y, dx,
             n);
    }
  });
}

}  // namespace trireme::cuda
