#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

__global__ void move_average_kernel(float* value, const float* sample, float momentum,
                                    const std::int32_t* skip, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n || (skip != nullptr && *skip != 0)) return;
  value[i] = (1.0f - momentum) * value[i] + momentum * sample[i];
}

}  // namespace

void run_op(const KernelContext& exec, const MoveAverageArgs& args) {
  const std::int64_t n = args.value.num_elems();
  assert(args.sample.num_elems() == n);
  check_dtype("move_average", DType::kFloat32, {args.value, args.sample});
  check_dtype("move_average", DType::kInt32, {args.skip});
  if (n == 0) return;
  launch(exec, "move_average", grid_of(ceil_div(n, kThreads)), kThreads, 0, move_average_kernel,
         args.value.as<float>(), args.sample.as<float>(), args.momentum, args.skip.as<std::int32_t>(), n);
}

}  // namespace trireme::cuda
