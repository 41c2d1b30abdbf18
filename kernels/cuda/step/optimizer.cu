// Parameter updates, one launch per call. Scalars that change from step to step are read on the card.
#include <algorithm>
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// Enough blocks to fill any card. Each block strides over the rest, so that the scalars are computed few
// times.
constexpr std::int64_t kMaxBlocks = 4096;

template <class G>
struct AdamWPointers {
  float *param, *exp_avg, *exp_avg_sq;
  const G* grad;
  const float *lr, *clip;
  const std::int32_t *step, *skip;  // skip may be null
};

struct AdamWConstants {
  float beta1, beta2, epsilon, weight_decay, working_center;
};

struct AdamWScalars {
  float clip;
  float decay;        // lr * weight_decay
  float step_size;    // lr / (1 - beta1^t)
  float rsqrt_bias2;  // 1 / sqrt(1 - beta2^t)
};

template <class G>
__device__ inline AdamWScalars adamw_scalars(const AdamWPointers<G>& p, const AdamWConstants& a) {
  const double lr = *p.lr;
  const int t = *p.step;
  return {*p.clip, static_cast<float>(lr * a.weight_decay),
          static_cast<float>(lr / (1.0 - pow(static_cast<double>(a.beta1), t))),
          static_cast<float>(1.0 / sqrt(1.0 - pow(static_cast<double>(a.beta2), t)))};
}

// See [Note: centered working copies].
template <int N, class W>
__device__ inline void store_working(W* working, const float (&param)[N], float center) {
  float centered[N];
#pragma unroll
  for (int k = 0; k < N; ++k) centered[k] = param[k] - center;
  store<N>(working, centered);
}

// W is the element type of the working copy, G of the gradient; N is the number of elements per access.
template <class W, class G, int N>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(AdamWPointers<G> p, AdamWConstants a, W* working, std::int64_t n) {
  if (p.skip != nullptr && *p.skip != 0) return;
  __shared__ AdamWScalars shared;
  if (threadIdx.x == 0) shared = adamw_scalars(p, a);
  __syncthreads();
  const AdamWScalars s = shared;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * N;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N; i < n; i += stride) {
    float grad[N], m[N], v[N], param[N];  // n is a multiple of N
    load<N>(p.grad + i, grad);
    load<N>(p.exp_avg + i, m);
    load<N>(p.exp_avg_sq + i, v);
    load<N>(p.param + i, param);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = s.clip * grad[k];
      m[k] = a.beta1 * m[k] + (1.0f - a.beta1) * g;
      v[k] = a.beta2 * v[k] + (1.0f - a.beta2) * g * g;
      param[k] -= s.decay * param[k];
      param[k] -= s.step_size * m[k] / (sqrtf(v[k]) * s.rsqrt_bias2 + a.epsilon);
    }
    store<N>(p.exp_avg + i, m);
    store<N>(p.exp_avg_sq + i, v);
    store<N>(p.param + i, param);
    if (working != nullptr) store_working<N>(working + i, param, a.working_center);
  }
}

template <class G>
struct LionPointers {
  float *param, *exp_avg;
  const G* grad;
  const float *lr, *clip;
  const std::int32_t* skip;  // may be null
};

struct LionConstants {
  float beta1, beta2, weight_decay, working_center;
};

template <class W, class G, int N>
__global__ void __launch_bounds__(kThreads)
    lion_kernel(LionPointers<G> p, LionConstants a, W* working, std::int64_t n) {
  if (p.skip != nullptr && *p.skip != 0) return;
  const float lr = *p.lr, clip = *p.clip;
  const float decay = static_cast<float>(static_cast<double>(lr) * a.weight_decay);
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * N;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N; i < n; i += stride) {
    float grad[N], m[N], param[N];  // n is a multiple of N
    load<N>(p.grad + i, grad);
    load<N>(p.exp_avg + i, m);
    load<N>(p.param + i, param);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = clip * grad[k];
      const float c = a.beta1 * m[k] + (1.0f - a.beta1) * g;
      m[k] = a.beta2 * m[k] + (1.0f - a.beta2) * g;
      param[k] -= decay * param[k];
      param[k] -= c > 0.0f ? lr : c < 0.0f ? -lr : c;  // 0 and NaN pass through
    }
    store<N>(p.exp_avg + i, m);
    store<N>(p.param + i, param);
    if (working != nullptr) store_working<N>(working + i, param, a.working_center);
  }
}

template <class G>
struct SgdPointers {
  float *param, *buffer;  // buffer may be null
  const G* grad;
  const float *lr, *clip;           // clip may be null: 1
  const std::int32_t *step, *skip;  // skip may be null
};

struct SgdConstants {
  float momentum, weight_decay, working_center;
  bool nesterov;
};

template <class W, class G, int N>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(SgdPointers<G> p, SgdConstants a, W* working, std::int64_t n) {
  if (p.skip != nullptr && *p.skip != 0) return;
  const float lr = *p.lr, clip = p.clip != nullptr ? *p.clip : 1.0f;
  const bool first_step = *p.step == 1;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * N;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N; i < n; i += stride) {
    float g[N], param[N];
    load<N>(p.grad + i, g);
    load<N>(p.param + i, param);
#pragma unroll
    for (int k = 0; k < N; ++k) g[k] = clip * g[k] + a.weight_decay * param[k];
    if (p.buffer != nullptr) {
      float buffer[N];
      load<N>(p.buffer + i, buffer);  // undefined and unused in the first step
#pragma unroll
      for (int k = 0; k < N; ++k) {
        buffer[k] = first_step ? g[k] : a.momentum * buffer[k] + g[k];
        g[k] = a.nesterov ? g[k] + a.momentum * buffer[k] : buffer[k];
      }
      store<N>(p.buffer + i, buffer);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) param[k] -= lr * g[k];
    store<N>(p.param + i, param);
    if (working != nullptr) store_working<N>(working + i, param, a.working_center);
  }
}

dim3 grid_for(std::int64_t n, int elems) {
  return grid_of(std::min(kMaxBlocks, ceil_div(n, std::int64_t{kThreads} * elems)));
}

// Calls run(W{}, G{}) with the element types of the working copy (fp32 without one) and of the gradient.
template <class F>
void for_types(const char* op, ConstTensorView working, ConstTensorView grad, F run) {
  const DType dtype = working.defined() ? working.dtype : DType::kFloat32;
  for_float_type(op, dtype,
                 [&]<class W>(W) { for_float_type(op, grad.dtype, [&]<class G>(G) { run(W{}, G{}); }); });
}

}  // namespace

void run_op(const KernelContext& exec, const AdamWArgs& args) {
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n && args.exp_avg.num_elems() == n && args.exp_avg_sq.num_elems() == n);
  check_dtype("adamw", DType::kFloat32, {args.param, args.exp_avg, args.exp_avg_sq, args.lr, args.clip});
  check_dtype("adamw", DType::kInt32, {args.step, args.skip});
  if (n == 0) return;
  const AdamWConstants a{args.beta1, args.beta2, args.epsilon, args.weight_decay, args.working_center};
  const bool packed = n % 4 == 0 && are_aligned({args.param.data, args.exp_avg.data, args.exp_avg_sq.data,
                                                 args.grad.data, args.working.data});
  for_types("adamw", args.working, args.grad, [&]<class W, class G>(W, G) {
    const AdamWPointers<G> p{.param = args.param.as<float>(),
                             .exp_avg = args.exp_avg.as<float>(),
                             .exp_avg_sq = args.exp_avg_sq.as<float>(),
                             .grad = args.grad.as<G>(),
                             .lr = args.lr.as<float>(),
                             .clip = args.clip.as<float>(),
                             .step = args.step.as<std::int32_t>(),
                             .skip = args.skip.as<std::int32_t>()};
    W* working = args.working.as<W>();
    with_pack<float>(packed, [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "adamw", grid_for(n, N), kThreads, 0, adamw_kernel<W, G, N>, p, a, working, n);
    });
  });
}

void run_op(const KernelContext& exec, const LionArgs& args) {
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n && args.exp_avg.num_elems() == n);
  check_dtype("lion", DType::kFloat32, {args.param, args.exp_avg, args.lr, args.clip});
  check_dtype("lion", DType::kInt32, {args.skip});
  if (n == 0) return;
  const LionConstants a{args.beta1, args.beta2, args.weight_decay, args.working_center};
  const bool packed =
      n % 4 == 0 && are_aligned({args.param.data, args.exp_avg.data, args.grad.data, args.working.data});
  for_types("lion", args.working, args.grad, [&]<class W, class G>(W, G) {
    const LionPointers<G> p{.param = args.param.as<float>(),
                            .exp_avg = args.exp_avg.as<float>(),
                            .grad = args.grad.as<G>(),
                            .lr = args.lr.as<float>(),
                            .clip = args.clip.as<float>(),
                            .skip = args.skip.as<std::int32_t>()};
    W* working = args.working.as<W>();
    with_pack<float>(packed, [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "lion", grid_for(n, N), kThreads, 0, lion_kernel<W, G, N>, p, a, working, n);
    });
  });
}

void run_op(const KernelContext& exec, const SgdArgs& args) {
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n);
  check_dtype("sgd", DType::kFloat32, {args.param, args.momentum_buffer, args.lr, args.clip});
  check_dtype("sgd", DType::kInt32, {args.step, args.skip});
  if (n == 0) return;
  const SgdConstants a{args.momentum, args.weight_decay, args.working_center, args.nesterov};
  const bool packed = n % 4 == 0 && are_aligned({args.param.data, args.momentum_buffer.data, args.grad.data,
                                                 args.working.data});
  for_types("sgd", args.working, args.grad, [&]<class W, class G>(W, G) {
    const SgdPointers<G> p{.param = args.param.as<float>(),
                           .buffer = args.momentum_buffer.as<float>(),
                           .grad = args.grad.as<G>(),
                           .lr = args.lr.as<float>(),
                           .clip = args.clip.as<float>(),
                           .step = args.step.as<std::int32_t>(),
                           .skip = args.skip.as<std::int32_t>()};
    W* working = args.working.as<W>();
    with_pack<float>(packed, [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "sgd", grid_for(n, N), kThreads, 0, sgd_kernel<W, G, N>, p, a, working, n);
    });
  });
}

}  // namespace trireme::cuda
