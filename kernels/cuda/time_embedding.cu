#include <cassert>
#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

struct Embedding {
  std::int64_t dim;
  double slope;  // of the logarithm of the frequencies
  double scale;
  bool sine_first;
};

// One thread per element. Angles are products in fp64, so that large timesteps keep their digits.
__global__ void time_embedding_kernel(const float* timesteps, float* out, std::int64_t n, Embedding e) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t row = i / e.dim, c = i - row * e.dim, half = e.dim / 2;
  if (c >= 2 * half) {
    out[i] = 0.0f;
    return;
  }
  const bool is_first = c < half;
  const std::int64_t k = is_first ? c : c - half;
  const double angle = static_cast<double>(timesteps[row]) * e.scale * exp(e.slope * static_cast<double>(k));
  out[i] = static_cast<float>(is_first == e.sine_first ? sin(angle) : cos(angle));
}

}  // namespace

void run_op(const KernelContext& exec, const TimeEmbeddingArgs& args) {
  const std::int64_t n = args.out.num_elems(), dim = args.out.shape[1];
  assert(args.timesteps.num_elems() == args.out.shape[0]);
  check_dtype("time_embedding", DType::kFloat32, {args.timesteps, args.out});
  if (n == 0) return;
  const Embedding e{.dim = dim,
                    .slope = -std::log(static_cast<double>(args.max_period)) /
                             (static_cast<double>(dim / 2) - static_cast<double>(args.frequency_shift)),
                    .scale = static_cast<double>(args.scale),
                    .sine_first = args.halves == TimeHalves::kSineFirst};
  launch(exec, "time_embedding", grid_of(ceil_div(n, kThreads)), kThreads, 0, time_embedding_kernel,
         args.timesteps.as<float>(), args.out.as<float>(), n, e);
}

}  // namespace trireme::cuda
