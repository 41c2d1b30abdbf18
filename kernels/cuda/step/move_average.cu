#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

struct MoveAverage {
  float* value;
  const float* sample;
  float momentum;
  const std::int32_t *skip, *step;  // or null
  double tau;
  std::int64_t n;
};

__global__ void move_average_kernel(MoveAverage args) {
  if (args.skip != nullptr && *args.skip != 0) return;
  __shared__ float shared_take;  // fp64 is slow on many cards: one thread computes the ramp
  if (threadIdx.x == 0) {
    shared_take = args.momentum;
    if (args.step != nullptr) {
      const double ramp = 1 - exp(-*args.step / args.tau);
      shared_take = static_cast<float>(1 - ramp * (1.0 - args.momentum));
    }
  }
  __syncthreads();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= args.n) return;
  const float take = shared_take;
  args.value[i] = (1.0f - take) * args.value[i] + take * args.sample[i];
}

}  // namespace

void run_op(const KernelContext& exec, const MoveAverageArgs& args) {
  const std::int64_t n = args.value.num_elems();
  assert(args.sample.num_elems() == n);
  check_dtype("move_average", DType::kFloat32, {args.value, args.sample});
  check_dtype("move_average", DType::kInt32, {args.skip, args.step});
  if (n == 0) return;
  launch(exec, "move_average", grid_of(ceil_div(n, kThreads)), kThreads, 0, move_average_kernel,
         MoveAverage{args.value.as<float>(), args.sample.as<float>(), args.momentum,
                     args.skip.as<std::int32_t>(), args.step.as<std::int32_t>(), args.tau, n});
}

}  // namespace trireme::cuda
