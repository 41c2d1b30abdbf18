#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/pool/pool.cuh"

namespace trireme::cuda {
namespace {

// Padding counts as zeros, so every window has the same number of pixels.
__device__ inline float inverse_pixels(const PoolImages& p) {
  return 1.0f / static_cast<float>(p.window_height * p.window_width);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) avg_pool_fwd_kernel(PoolImages p, const T* x, T* y) {
  for_each_place<N>(p, p.out_height, p.out_width, [&](const PoolPlace& out) {
    float sum[N] = {};
    for_each_input(p, out, [&](std::int64_t in, int) {
      float v[N];
      load<N>(x + in, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    });
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] *= inverse_pixels(p);
    store<N>(y + offset_of(p, out, p.out_height, p.out_width), sum);
  });
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) avg_pool_bwd_kernel(PoolImages p, const T* dy, T* dx) {
  for_each_place<N>(p, p.height, p.width, [&](const PoolPlace& in) {
    float sum[N] = {};
    for_each_output(p, in, [&](std::int64_t out, int) {
      float v[N];
      load<N>(dy + out, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i] * inverse_pixels(p);
    });
    store<N>(dx + offset_of(p, in, p.height, p.width), sum);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const AvgPoolFwdArgs& args) {
  check_dtype("avg_pool_fwd", args.x.dtype, {args.y});
  const PoolImages p = pool_images(args.x.shape, args.y.shape, args.window);
  if (args.y.num_elems() == 0) return;
  for_float_type("avg_pool_fwd", args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    T* y = args.y.as<T>();
    with_pack<T>(rows_are_packable(p.channels, sizeof(T), {x, y}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "avg_pool_fwd", pool_grid<N>(p, p.out_height, p.out_width), kThreads, 0,
                          avg_pool_fwd_kernel<T, N>, p, x, y);
                 });
  });
}

void run_op(const KernelContext& exec, const AvgPoolBwdArgs& args) {
  check_dtype("avg_pool_bwd", args.dx.dtype, {args.dy});
  const PoolImages p = pool_images(args.dx.shape, args.dy.shape, args.window);
  if (args.dx.num_elems() == 0) return;
  for_float_type("avg_pool_bwd", args.dx.dtype, [&]<class T>(T) {
    const T* dy = args.dy.as<T>();
    T* dx = args.dx.as<T>();
    with_pack<T>(rows_are_packable(p.channels, sizeof(T), {dy, dx}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "avg_pool_bwd", pool_grid<N>(p, p.height, p.width), kThreads, 0,
                          avg_pool_bwd_kernel<T, N>, p, dy, dx);
                 });
  });
}

}  // namespace trireme::cuda
