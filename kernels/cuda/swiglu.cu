#include <cassert>
#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// One thread per N neighbouring elements of a row. `cols` is a multiple of N.
template <class T, int N>
__global__ void swiglu_fwd_kernel(const T* x, T* y, std::int64_t n, std::int64_t cols) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;
  const std::int64_t at = first + first / cols * cols;
  float g[N], u[N];
  load<N>(x + at, g);
  load<N>(x + at + cols, u);
#pragma unroll
  for (int i = 0; i < N; ++i) u[i] *= g[i] / (1.0f + expf(-g[i]));
  store<N>(y + first, u);
}

// `dx` may be `x`.
template <class T, int N>
__global__ void swiglu_bwd_kernel(const T* dy, const T* x, T* dx, std::int64_t n, std::int64_t cols) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;
  const std::int64_t at = first + first / cols * cols;
  float d[N], g[N], u[N];
  load<N>(dy + first, d);
  load<N>(x + at, g);
  load<N>(x + at + cols, u);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float sigmoid = 1.0f / (1.0f + expf(-g[i])), rest = 1.0f / (1.0f + expf(g[i]));
    const float dup = d[i] * g[i] * sigmoid;
    g[i] = d[i] * u[i] * (sigmoid + g[i] * sigmoid * rest);
    u[i] = dup;
  }
  store<N>(dx + at, g);
  store<N>(dx + at + cols, u);
}

}  // namespace

void run_op(const KernelContext& exec, const SwigluFwdArgs& args) {
  const std::int64_t n = args.y.num_elems(), cols = args.y.shape[1];
  assert(args.x.num_elems() == 2 * n);
  check_dtype("swiglu_fwd", args.x.dtype, {args.y});
  if (n == 0) return;
  for_float_type("swiglu_fwd", args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    T* y = args.y.as<T>();
    with_pack<T>(rows_are_packable(cols, sizeof(T), {x, y}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "swiglu_fwd", grid_of(ceil_div(n, N * kThreads)), kThreads, 0, swiglu_fwd_kernel<T, N>, x,
             y, n, cols);
    });
  });
}

void run_op(const KernelContext& exec, const SwigluBwdArgs& args) {
  const std::int64_t n = args.dy.num_elems(), cols = args.dy.shape[1];
  assert(args.x.num_elems() == 2 * n && args.dx.num_elems() == 2 * n);
  check_dtype("swiglu_bwd", args.x.dtype, {args.dy, args.dx});
  if (n == 0) return;
  for_float_type("swiglu_bwd", args.x.dtype, [&]<class T>(T) {
    const T *dy = args.dy.as<T>(), *x = args.x.as<T>();
    T* dx = args.dx.as<T>();
    with_pack<T>(rows_are_packable(cols, sizeof(T), {dy, x, dx}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "swiglu_bwd", grid_of(ceil_div(n, N * kThreads)), kThreads, 0, swiglu_bwd_kernel<T, N>, dy,
             x, dx, n, cols);
    });
  });
}

}  // namespace trireme::cuda
