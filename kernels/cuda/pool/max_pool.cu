#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/pool/pool.cuh"

namespace trireme::cuda {
namespace {

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    max_pool_fwd_kernel(PoolImages p, const T* x, T* y, std::uint8_t* place) {
  for_each_place<N>(p, p.out_height, p.out_width, [&](const PoolPlace& out) {
    float best[N] = {};
    Pack<std::uint8_t, N> where{};
    bool first = true;
    for_each_input(p, out, [&](std::int64_t in, int at) {
      float v[N];
      load<N>(x + in, v);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const bool is_nan = v[i] != v[i], best_is_nan = best[i] != best[i];
        if (!first && !(v[i] > best[i]) && (!is_nan || best_is_nan)) continue;
        best[i] = v[i];
        where.elems[i] = static_cast<std::uint8_t>(at);
      }
      first = false;
    });
    const std::int64_t at = offset_of(p, out, p.out_height, p.out_width);
    store<N>(y + at, best);
    if (place != nullptr) *reinterpret_cast<Pack<std::uint8_t, N>*>(place + at) = where;
  });
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    max_pool_bwd_kernel(PoolImages p, const T* dy, const std::uint8_t* place, T* dx) {
  for_each_place<N>(p, p.height, p.width, [&](const PoolPlace& in) {
    float sum[N] = {};
    for_each_output(p, in, [&](std::int64_t out, int at) {
      float v[N];
      load<N>(dy + out, v);
      const auto where = *reinterpret_cast<const Pack<std::uint8_t, N>*>(place + out);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += where.elems[i] == at ? v[i] : 0.0f;
    });
    store<N>(dx + offset_of(p, in, p.height, p.width), sum);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const MaxPoolFwdArgs& args) {
  check_dtype("max_pool_fwd", args.x.dtype, {args.y});
  check_dtype("max_pool_fwd", DType::kUInt8, {args.place});
  const PoolImages p = pool_images(args.x.shape, args.y.shape, args.window);
  assert(args.window.height * args.window.width <= 256);
  if (args.y.num_elems() == 0) return;
  for_float_type("max_pool_fwd", args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<T>();
    T* y = args.y.as<T>();
    std::uint8_t* place = args.place.as<std::uint8_t>();
    with_pack<T>(rows_are_packable(p.channels, sizeof(T), {x, y, place}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "max_pool_fwd", pool_grid<N>(p, p.out_height, p.out_width), kThreads, 0,
                          max_pool_fwd_kernel<T, N>, p, x, y, place);
                 });
  });
}

void run_op(const KernelContext& exec, const MaxPoolBwdArgs& args) {
  check_dtype("max_pool_bwd", args.dx.dtype, {args.dy});
  check_dtype("max_pool_bwd", DType::kUInt8, {args.place});
  const PoolImages p = pool_images(args.dx.shape, args.dy.shape, args.window);
  if (args.dx.num_elems() == 0) return;
  for_float_type("max_pool_bwd", args.dx.dtype, [&]<class T>(T) {
    const T* dy = args.dy.as<T>();
    T* dx = args.dx.as<T>();
    const std::uint8_t* place = args.place.as<std::uint8_t>();
    with_pack<T>(rows_are_packable(p.channels, sizeof(T), {dy, dx, place}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "max_pool_bwd", pool_grid<N>(p, p.height, p.width), kThreads, 0,
                          max_pool_bwd_kernel<T, N>, p, dy, place, dx);
                 });
  });
}

}  // namespace trireme::cuda
