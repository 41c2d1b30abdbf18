#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "runtime/base/fp8.h"

namespace trireme::cuda {
namespace {

// One thread per history.
__global__ void move_maxima_kernel(float* histories, std::int64_t n, const float* samples, std::int64_t rows,
                                   std::int64_t columns, std::int32_t* num_clipped,
                                   const std::int32_t* skip) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n || (skip != nullptr && *skip != 0)) return;
  float amax = 0.0f;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float sample = samples[row * columns + i * kFp8HistoryElems];
    amax = sample > amax ? sample : amax;
  }
  if (fp8_move_history(histories + i * kFp8HistoryElems, amax)) atomicAdd(num_clipped, 1);
}

}  // namespace

void run_op(const KernelContext& exec, const MoveMaximaArgs& args) {
  const std::int64_t n = args.histories.shape[0];
  assert(args.histories.shape.dim(-1) == kFp8HistoryElems);
  check_dtype("move_maxima", DType::kFloat32, {args.histories, args.samples});
  check_dtype("move_maxima", DType::kInt32, {args.num_clipped, args.skip});
  if (n == 0) return;
  launch(exec, "move_maxima", grid_of(ceil_div(n, kThreads)), kThreads, 0, move_maxima_kernel,
         args.histories.as<float>(), n, args.samples.as<float>() + args.first_column, args.samples.shape[0],
         args.samples.shape[1], args.num_clipped.as<std::int32_t>(), args.skip.as<std::int32_t>());
}

}  // namespace trireme::cuda
