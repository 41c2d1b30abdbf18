#include <cassert>
#include <cmath>

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

__device__ float swiglu(float g, float u) {
  return u * (g / (1.0f + expf(-g)));
}

/// Replaces g and u by their gradients.
__device__ void swiglu_bwd(float d, float& g, float& u) {
  const float sigmoid = 1.0f / (1.0f + expf(-g)), rest = 1.0f / (1.0f + expf(g));
  const float dup = d * g * sigmoid;
  g = d * u * (sigmoid + g * sigmoid * rest);
  u = dup;
}

template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// The results as sources of codes: see codes.cuh.
template <class T>
struct SwigluResult {
  static constexpr int kParts = 1;
  const T* x;
  std::int64_t cols;

  template <int N>
  __device__ void read(std::int64_t row, std::int64_t col, float (&values)[kParts][N]) const {
    float u[N];
    load<N>(x + 2 * row * cols + col, values[0]);
    load<N>(x + (2 * row + 1) * cols + col, u);
#pragma unroll
    for (int i = 0; i < N; ++i) values[0][i] = rounded<T>(swiglu(values[0][i], u[i]));
  }
};

template <class T>
struct SwigluGradient {
  static constexpr int kParts = 2;  // the gradients of gate and up
  const T *dy, *x;
  std::int64_t cols;

  template <int N>
  __device__ void read(std::int64_t row, std::int64_t col, float (&values)[kParts][N]) const {
    float d[N];
    load<N>(dy + row * cols + col, d);
    load<N>(x + 2 * row * cols + col, values[0]);
    load<N>(x + (2 * row + 1) * cols + col, values[1]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      swiglu_bwd(d[i], values[0][i], values[1][i]);
      values[0][i] = rounded<T>(values[0][i]);
      values[1][i] = rounded<T>(values[1][i]);
    }
  }
};

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
  for (int i = 0; i < N; ++i) u[i] = swiglu(g[i], u[i]);
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
  for (int i = 0; i < N; ++i) swiglu_bwd(d[i], g[i], u[i]);
  store<N>(dx + at, g);
  store<N>(dx + at + cols, u);
}

}  // namespace

void run_op(const KernelContext& exec, const SwigluFwdArgs& args) {
  const std::int64_t rows = args.x.shape[0], cols = args.x.shape[1] / 2, n = rows * cols;
  assert(args.out.defined() != args.y.defined() && (args.out.defined() || args.y.num_elems() == n));
  check_dtype("swiglu_fwd", args.x.dtype, {args.y});
  if (n == 0) return;
  for_float_type("swiglu_fwd", args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    if (args.out.defined()) {
      return write_codes(exec, "swiglu_fwd", SwigluResult<T>{x, cols}, rows, cols, args.out,
                         are_aligned({x}));
    }
    T* y = args.y.as<T>();
    with_pack<T>(rows_are_packable(cols, sizeof(T), {x, y}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "swiglu_fwd", grid_of(ceil_div(n, N * kThreads)), kThreads, 0, swiglu_fwd_kernel<T, N>, x,
             y, n, cols);
    });
  });
}

void run_op(const KernelContext& exec, const SwigluBwdArgs& args) {
  const std::int64_t n = args.dy.num_elems(), cols = args.dy.shape[1];
  assert(args.x.num_elems() == 2 * n && args.out.defined() != args.dx.defined() &&
         (args.out.defined() || args.dx.num_elems() == 2 * n));
  check_dtype("swiglu_bwd", args.x.dtype, {args.dy, args.dx});
  if (n == 0) return;
  for_float_type("swiglu_bwd", args.x.dtype, [&]<class T>(T) {
    const T *dy = args.dy.as<T>(), *x = args.x.as<T>();
    if (args.out.defined()) {
      return write_codes(exec, "swiglu_bwd", SwigluGradient<T>{dy, x, cols}, args.dy.shape[0], cols, args.out,
                         are_aligned({dy, x}));
    }
    T* dx = args.dx.as<T>();
    with_pack<T>(rows_are_packable(cols, sizeof(T), {dy, x, dx}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "swiglu_bwd", grid_of(ceil_div(n, N * kThreads)), kThreads, 0, swiglu_bwd_kernel<T, N>, dy,
             x, dx, n, cols);
    });
  });
}

}  // namespace trireme::cuda
