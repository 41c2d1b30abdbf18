#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

template <class X, class Y, int N>
__global__ void cast_kernel(const X* x, Y* y, float center, std::int64_t n) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= n) {
    float v[N];
    load<N>(x + first, v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] -= center;
    store<N>(y + first, v);
    return;
  }
  for (std::int64_t i = first; i < n; ++i) y[i] = from_float<Y>(to_float(x[i]) - center);
}

}  // namespace

void run_op(const KernelContext& exec, const CastArgs& args) {
  const std::int64_t n = args.y.num_elems();
  assert(args.x.num_elems() == n);
  for_float_type("cast", args.x.dtype, [&]<class X>(X) {
    for_float_type("cast", args.y.dtype, [&]<class Y>(Y) {
      if (n == 0) return;
      if (args.x.dtype == args.y.dtype && args.center == 0.0f) return copy(exec, args.y, args.x);
      const X* x = args.x.as<X>();
      Y* y = args.y.as<Y>();
      constexpr int kElems = 8;  // 16 bytes of the narrower type, 32 of the wider
      if (are_aligned({x, y})) {
        launch(exec, "cast", grid_of(ceil_div(n, kElems * kThreads)), kThreads, 0, cast_kernel<X, Y, kElems>,
               x, y, args.center, n);
      } else {
        launch(exec, "cast", grid_of(ceil_div(n, kThreads)), kThreads, 0, cast_kernel<X, Y, 1>, x, y,
               args.center, n);
      }
    });
  });
}

}  // namespace trireme::cuda
