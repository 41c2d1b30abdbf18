#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

/// The first of the four pixels of `y` that the elements from `first` on of x became. `width` is x's.
__device__ std::int64_t upper_left(std::int64_t first, std::int64_t width, std::int64_t cols) {
  const std::int64_t pixel = first / cols, row = pixel / width;
  return (4 * row * width + 2 * (pixel - row * width)) * cols + first % cols;
}

// One thread per N neighbouring channels of a pixel of x. `cols` is a multiple of N.
template <class T, int N>
__global__ void upsample_fwd_kernel(const T* x, T* y, std::int64_t n, std::int64_t width, std::int64_t cols) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;
  const Pack<T, N> value = load_pack<N>(x + first);
  T* const to = y + upper_left(first, width, cols);
  const std::int64_t line = 2 * width * cols;
  *reinterpret_cast<Pack<T, N>*>(to) = value;
  *reinterpret_cast<Pack<T, N>*>(to + cols) = value;
  *reinterpret_cast<Pack<T, N>*>(to + line) = value;
  *reinterpret_cast<Pack<T, N>*>(to + line + cols) = value;
}

template <class T, int N>
__global__ void upsample_bwd_kernel(const T* dy, T* dx, std::int64_t n, std::int64_t width,
                                    std::int64_t cols) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;
  const T* const from = dy + upper_left(first, width, cols);
  const std::int64_t line = 2 * width * cols;
  float a[N], b[N], c[N], d[N];
  load<N>(from, a);
  load<N>(from + cols, b);
  load<N>(from + line, c);
  load<N>(from + line + cols, d);
#pragma unroll
  for (int i = 0; i < N; ++i) a[i] = (a[i] + b[i]) + (c[i] + d[i]);
  store<N>(dx + first, a);
}

}  // namespace

void run_op(const KernelContext& exec, const UpsampleFwdArgs& args) {
  const std::int64_t n = args.x.num_elems(), width = args.x.shape[2], cols = args.x.shape[3];
  assert(args.y.num_elems() == 4 * n);
  check_dtype("upsample_fwd", args.y.dtype, {args.x});
  if (n == 0) return;
  for_float_type("upsample_fwd", args.y.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    T* y = args.y.as<T>();
    with_pack<T>(rows_are_packable(cols, sizeof(T), {x, y}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "upsample_fwd", grid_of(ceil_div(n, N * kThreads)), kThreads, 0, upsample_fwd_kernel<T, N>,
             x, y, n, width, cols);
    });
  });
}

void run_op(const KernelContext& exec, const UpsampleBwdArgs& args) {
  const std::int64_t n = args.dx.num_elems(), width = args.dx.shape[2], cols = args.dx.shape[3];
  assert(args.dy.num_elems() == 4 * n);
  check_dtype("upsample_bwd", args.dx.dtype, {args.dy});
  if (n == 0) return;
  for_float_type("upsample_bwd", args.dx.dtype, [&]<class T>(T) {
    const T* dy = args.dy.as<T>();
    T* dx = args.dx.as<T>();
    with_pack<T>(rows_are_packable(cols, sizeof(T), {dy, dx}), [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "upsample_bwd", grid_of(ceil_div(n, N * kThreads)), kThreads, 0, upsample_bwd_kernel<T, N>,
             dy, dx, n, width, cols);
    });
  });
}

}  // namespace trireme::cuda
