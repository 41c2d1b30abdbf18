// The parts of Muon other than matrix products. Scalars that change from step to step are read on the card.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

template <class G>
struct MuonPointers {
  float *momentum, *update;
  const G* grad;
  const float* clip;
  const std::int32_t* skip;  // may be null
};

template <class G>
__global__ void muon_momentum_kernel(MuonPointers<G> p, float momentum, bool nesterov, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (p.skip != nullptr && *p.skip != 0) {
    p.update[i] = 0.0f;
    return;
  }
  const float g = *p.clip * to_float(p.grad[i]);
  const float m = p.momentum[i] + (1.0f - momentum) * (g - p.momentum[i]);
  p.momentum[i] = m;
  p.update[i] = nesterov ? g + momentum * (m - g) : m;
}

constexpr int kSumThreads = 1024;

// One block. The number of partials fixes the order.
__global__ void __launch_bounds__(kSumThreads)
    inverse_norm_kernel(const float* partials, std::int64_t n, float epsilon, float* factor) {
  __shared__ double shared[kSumThreads / kWarp];
  double sum = 0.0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < n; i += kSumThreads) sum += partials[i];
  sum = block_sum<kSumThreads>(sum, shared);
  if (threadIdx.x != 0) return;
  const double norm = sqrt(sum), least = epsilon;
  *factor = static_cast<float>(1.0 / (norm < least ? least : norm));  // NaN gives NaN
}

__global__ void scale_add_identity_kernel(const float* x, float* y, float scale, float identity,
                                          std::int64_t m) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= m * m) return;
  const float scaled = scale * x[i];
  y[i] = i % (m + 1) == 0 ? scaled + identity : scaled;
}

}  // namespace

void run_op(const KernelContext& exec, const MuonMomentumArgs& args) {
  const std::int64_t n = args.update.num_elems();
  assert(args.momentum_buffer.num_elems() == n && args.grad.num_elems() == n);
  check_dtype("muon_momentum", DType::kFloat32, {args.momentum_buffer, args.update, args.clip});
  check_dtype("muon_momentum", DType::kInt32, {args.skip});
  if (n == 0) return;
  for_float_type("muon_momentum", args.grad.dtype, [&]<class G>(G) {
    const MuonPointers<G> p{.momentum = args.momentum_buffer.as<float>(),
                            .update = args.update.as<float>(),
                            .grad = args.grad.as<G>(),
                            .clip = args.clip.as<float>(),
                            .skip = args.skip.as<std::int32_t>()};
    launch(exec, "muon_momentum", grid_of(ceil_div(n, kThreads)), kThreads, 0, muon_momentum_kernel<G>, p,
           args.momentum, args.nesterov, n);
  });
}

void run_op(const KernelContext& exec, const InverseNormArgs& args) {
  check_dtype("inverse_norm", DType::kFloat32, {args.partials, args.factor});
  launch(exec, "inverse_norm", 1, kSumThreads, 0, inverse_norm_kernel, args.partials.as<float>(),
         args.partials.num_elems(), args.epsilon, args.factor.as<float>());
}

void run_op(const KernelContext& exec, const ScaleAddIdentityArgs& args) {
  const std::int64_t m = args.y.shape.dim(0);
  assert(args.y.num_elems() == m * m && args.x.num_elems() == m * m);
  check_dtype("scale_add_identity", DType::kFloat32, {args.x, args.y});
  if (m == 0) return;
  launch(exec, "scale_add_identity", grid_of(ceil_div(m * m, kThreads)), kThreads, 0,
         scale_add_identity_kernel, args.x.as<float>(), args.y.as<float>(), args.scale, args.identity, m);
}

}  // namespace trireme::cuda
