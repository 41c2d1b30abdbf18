// Squared error. A sample is split into chunks by its size alone. A block sums a chunk; one block for each
// sample adds the chunks in fp64.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr std::int64_t kChunkElems = 8 * 1024;

struct ErrorExtents {
  std::int64_t samples, elems, chunks;  // elements and chunks of a sample
};

template <class T>
struct ErrorPointers {
  T* prediction;
  const float *target, *sample_weights, *gradient_scale;  // the last two may be null
};

// One block per chunk. `factor` scales the gradient, before weight and scale. `elems` is a multiple of
// N.
template <class T, int N, bool kGradient>
__global__ void __launch_bounds__(kThreads)
    squared_error_kernel(ErrorExtents e, ErrorPointers<T> p, float factor, float* sums) {
  __shared__ float shared[kThreads / kWarp];
  const std::int64_t sample = blockIdx.x / e.chunks, begin = blockIdx.x % e.chunks * kChunkElems;
  const std::int64_t end = begin + kChunkElems < e.elems ? begin + kChunkElems : e.elems;
  if (p.sample_weights != nullptr) factor *= p.sample_weights[sample];
  if (p.gradient_scale != nullptr) factor *= *p.gradient_scale;
  float sum = 0.0f;
  for (std::int64_t i = begin + threadIdx.x * N; i < end; i += kThreads * N) {
    const std::int64_t at = sample * e.elems + i;
    float x[N], target[N];
    load<N>(p.prediction + at, x);
    load<N>(p.target + at, target);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      x[j] -= target[j];
      sum += x[j] * x[j];
      x[j] *= factor;
    }
    if constexpr (kGradient) store<N>(p.prediction + at, x);
  }
  sum = block_sum<kThreads>(sum, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block per sample.
__global__ void __launch_bounds__(kThreads)
    sample_errors_kernel(ErrorExtents e, const float* sums, float* errors) {
  __shared__ double shared[kThreads / kWarp];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < e.chunks; i += kThreads) {
    sum += static_cast<double>(sums[blockIdx.x * e.chunks + i]);
  }
  sum = block_sum<kThreads>(sum, shared);
  if (threadIdx.x == 0) errors[blockIdx.x] = static_cast<float>(sum / static_cast<double>(e.elems));
}

// One block.
__global__ void __launch_bounds__(kThreads)
    mean_error_kernel(std::int64_t samples, const float* errors, const float* weights, float factor,
                      float* loss) {
  __shared__ double shared[kThreads / kWarp];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < samples; i += kThreads) {
    sum += static_cast<double>(errors[i]) * (weights != nullptr ? static_cast<double>(weights[i]) : 1.0);
  }
  sum = block_sum<kThreads>(sum, shared);
  if (threadIdx.x == 0) *loss = static_cast<float>(sum * static_cast<double>(factor));
}

}  // namespace

void run_op(const KernelContext& exec, const SquaredErrorArgs& args) {
  constexpr const char* kOp = "squared_error";
  check_dtype(kOp, DType::kFloat32,
              {args.target, args.sample_weights, args.sample_errors, args.loss, args.gradient_scale});
  const std::int64_t samples = args.sample_errors.num_elems();
  assert(args.target.num_elems() == args.prediction.num_elems());
  if (args.prediction.num_elems() == 0) return;
  const std::int64_t elems = args.prediction.num_elems() / samples;
  const ErrorExtents e{samples, elems, ceil_div(elems, kChunkElems)};
  const Workspace sums(exec, static_cast<std::size_t>(samples * e.chunks) * sizeof(float));
  for_float_type(kOp, args.prediction.dtype, [&]<class T>(T) {
    const ErrorPointers<T> p{.prediction = args.prediction.as<T>(),
                             .target = args.target.as<float>(),
                             .sample_weights = args.sample_weights.as<float>(),
                             .gradient_scale = args.gradient_scale.as<float>()};
    const float factor = 2.0f * args.inv_num_targets / static_cast<float>(elems);
    with_pack<T>(
        rows_are_packable(elems, sizeof(T), {p.prediction, p.target}),
        [&]<int N>(std::integral_constant<int, N>) {
          launch(exec, kOp, grid_of(samples * e.chunks), kThreads, 0,
                 args.write_gradient ? squared_error_kernel<T, N, true> : squared_error_kernel<T, N, false>,
                 e, p, factor, sums.as<float>());
        });
  });
  float* errors = args.sample_errors.as<float>();
  launch(exec, kOp, grid_of(samples), kThreads, 0, sample_errors_kernel, e, sums.as<float>(), errors);
  if (!args.loss.defined()) return;
  launch(exec, kOp, grid_of(1), kThreads, 0, mean_error_kernel, samples, errors,
         args.sample_weights.as<float>(), args.inv_num_targets, args.loss.as<float>());
}

}  // namespace trireme::cuda
