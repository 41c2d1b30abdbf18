#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

template <class T, int N>
__global__ void add_kernel(const T* a, const T* b, T* out, std::int64_t n) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= n) {
    float x[N], y[N];
    load<N>(a + first, x);
    load<N>(b + first, y);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += y[i];
    store<N>(out + first, x);
    return;
  }
  for (std::int64_t i = first; i < n; ++i) out[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
}

template <class T, int N>
__global__ void scale_kernel(T* x, const float* factor, std::int64_t n) {
  const float f = *factor;
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= n) {
    float v[N];
    load<N>(x + first, v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= f;
    store<N>(x + first, v);
    return;
  }
  for (std::int64_t i = first; i < n; ++i) x[i] = from_float<T>(to_float(x[i]) * f);
}

}  // namespace

void run_op(const KernelContext& exec, const AddArgs& args) {
  const std::int64_t n = args.out.num_elems();
  assert(args.a.num_elems() == n && args.b.num_elems() == n);
  check_dtype("add", args.out.dtype, {args.a, args.b});
  if (n == 0) return;
  for_float_type("add", args.out.dtype, [&]<class T>(T) {
    const T *a = args.a.as<T>(), *b = args.b.as<T>();
    T* out = args.out.as<T>();
    if (are_aligned({a, b, out})) {
      launch(exec, "add", grid_of(ceil_div(n, kPack<T> * kThreads)), kThreads, 0, add_kernel<T, kPack<T>>, a,
             b, out, n);
    } else {
      launch(exec, "add", grid_of(ceil_div(n, kThreads)), kThreads, 0, add_kernel<T, 1>, a, b, out, n);
    }
  });
}

void run_op(const KernelContext& exec, const ScaleArgs& args) {
  const std::int64_t n = args.x.num_elems();
  check_dtype("scale", DType::kFloat32, {args.factor});
  if (n == 0) return;
  for_float_type("scale", args.x.dtype, [&]<class T>(T) {
    T* x = args.x.as<T>();
    const float* factor = args.factor.as<float>();
    if (are_aligned({x})) {
      launch(exec, "scale", grid_of(ceil_div(n, kPack<T> * kThreads)), kThreads, 0, scale_kernel<T, kPack<T>>,
             x, factor, n);
    } else {
      launch(exec, "scale", grid_of(ceil_div(n, kThreads)), kThreads, 0, scale_kernel<T, 1>, x, factor, n);
    }
  });
}

}  // namespace trireme::cuda
