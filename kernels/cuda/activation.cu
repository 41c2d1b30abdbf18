// Activations as native kernels: forward, backward, and the part of a matmul's epilogue that the library does
// not compute.
#include <cassert>

#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/matmul/matmul_epilogue.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/silu.cuh"

namespace trireme::cuda {
namespace {

struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};

struct GeluTanh {
  __device__ float operator()(float x) const { return gelu_tanh(x); }
};

struct Gelu {
  __device__ float operator()(float x) const { return gelu(x); }
};

struct Silu {
  __device__ float operator()(float x) const { return silu(x); }
};

struct TanhBackward {
  __device__ float operator()(float dy, float pre) const {
    const float y = tanhf(pre);
    return dy * (1.0f - y * y);
  }
};

struct SiluBackward {
  __device__ float operator()(float dy, float pre) const { return dy * silu_derivative(pre); }
};

struct GeluTanhBackward {
  __device__ float operator()(float dy, float pre) const { return dy * gelu_tanh_derivative(pre); }
};

struct GeluBackward {
  __device__ float operator()(float dy, float pre) const { return dy * gelu_derivative(pre); }
};

// One thread per N columns of a row. `product` may be `d`; `pre_activation` and `residual` may be null.
template <class T, int N>
__global__ void epilogue_kernel(const float* product, const T* bias, T* pre_activation, const T* residual,
                                T* d, std::int64_t n, std::int64_t cols, std::int64_t d_pitch,
                                Activation activation) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;  // n is a multiple of N
  float x[N];
  load<N>(product + first, x);
  if (bias != nullptr) {
    float b[N];
    load<N>(bias + first % cols, b);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += b[i];
  }
  if (pre_activation != nullptr) store<N>(pre_activation + first, x);
  if (activation == Activation::kGeluTanh) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = gelu_tanh(x[i]);
  } else if (activation == Activation::kGelu) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = gelu(x[i]);
  } else if (activation == Activation::kTanh) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = tanhf(x[i]);
  } else if (activation == Activation::kSilu) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = silu(x[i]);
  }
  if (residual != nullptr) {
    float r[N];
    load<N>(residual + first, r);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += r[i];
  }
  store<N>(d + first / cols * d_pitch + first % cols, x);
}

template <class T, class Function>
void run_forward(const KernelContext& exec, const ActivationFwdArgs& args, Function function) {
  map<kPack<T>>(exec, "activation_fwd", function, args.y.num_elems(), args.y.as<T>(), args.x.as<T>());
}

template <class T, class Function>
void run_backward(const KernelContext& exec, const ActivationBwdArgs& args, Function function) {
  map<kPack<T>>(exec, "activation_bwd", function, args.dx.num_elems(), args.dx.as<T>(), args.dy.as<T>(),
                args.pre.as<T>());
}

}  // namespace

void run_op(const KernelContext& exec, const ActivationFwdArgs& args) {
  assert(args.x.num_elems() == args.y.num_elems());
  check_dtype("activation_fwd", args.y.dtype, {args.x});
  if (args.activation == Activation::kNone) {
    if (args.y.data != args.x.data) copy(exec, args.y, args.x);
    return;
  }
  for_float_type("activation_fwd", args.y.dtype, [&]<class T>(T) {
    if (args.activation == Activation::kTanh) return run_forward<T>(exec, args, Tanh{});
    if (args.activation == Activation::kGelu) return run_forward<T>(exec, args, Gelu{});
    if (args.activation == Activation::kSilu) return run_forward<T>(exec, args, Silu{});
    run_forward<T>(exec, args, GeluTanh{});
  });
}

void run_op(const KernelContext& exec, const ActivationBwdArgs& args) {
  assert(args.dy.num_elems() == args.dx.num_elems() && args.pre.num_elems() == args.dx.num_elems());
  check_dtype("activation_bwd", args.dx.dtype, {args.dy, args.pre});
  if (args.activation == Activation::kNone) {
    if (args.dx.data != args.dy.data) copy(exec, args.dx, args.dy);
    return;
  }
  for_float_type("activation_bwd", args.dx.dtype, [&]<class T>(T) {
    if (args.activation == Activation::kTanh) return run_backward<T>(exec, args, TanhBackward{});
    if (args.activation == Activation::kGelu) return run_backward<T>(exec, args, GeluBackward{});
    if (args.activation == Activation::kSilu) return run_backward<T>(exec, args, SiluBackward{});
    run_backward<T>(exec, args, GeluTanhBackward{});
  });
}

void matmul_epilogue(const KernelContext& exec, const MatmulEpilogue& e) {
  const std::int64_t n = e.d.num_elems(), cols = e.d.shape[1];
  if (n == 0) return;
  for_float_type("matmul", e.d.dtype, [&]<class T>(T) {
    const T *bias = e.bias.as<T>(), *residual = e.residual.as<T>();
    const float* product = e.product.as<float>();
    T *pre = e.pre_activation.as<T>(), *d = e.d.as<T>();
    const std::int64_t d_pitch = e.d_pitch > 0 ? e.d_pitch : cols;
    with_pack<T>(
        rows_are_packable(cols, sizeof(T), {product, bias, pre, residual, d}) && d_pitch % kPack<T> == 0,
        [&]<int N>(std::integral_constant<int, N>) {
          launch(exec, "matmul epilogue", grid_of(ceil_div(n, N * kThreads)), kThreads, 0,
                 epilogue_kernel<T, N>, product, bias, pre, residual, d, n, cols, d_pitch, e.activation);
        });
  });
}

}  // namespace trireme::cuda
