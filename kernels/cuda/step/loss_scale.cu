// Runs on one thread: a step's outcome is five scalars.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

struct LossScalePointers {
  const float* norm;
  float* scale;  // null without a loss scale
  std::int32_t *clean_steps, *skip, *skipped_in_a_row, *step;
};

__global__ void update_loss_scale_kernel(LossScalePointers p, float growth_factor, float backoff_factor,
                                         std::int32_t growth_interval) {
  if (threadIdx.x != 0) return;
  const bool skip = !isfinite(*p.norm);
  *p.skip = skip ? 1 : 0;
  *p.skipped_in_a_row = skip ? *p.skipped_in_a_row + 1 : 0;
  if (!skip) *p.step += 1;
  if (p.scale == nullptr || growth_interval == 0) return;
  std::int32_t clean = skip ? 0 : *p.clean_steps + 1;
  if (skip) {
    *p.scale *= backoff_factor;
  } else if (clean == growth_interval) {
    if (isfinite(*p.scale * growth_factor)) *p.scale *= growth_factor;
    clean = 0;
  }
  *p.clean_steps = clean;
}

}  // namespace

void run_op(const KernelContext& exec, const UpdateLossScaleArgs& args) {
  check_dtype("update_loss_scale", DType::kFloat32, {args.norm, args.scale});
  check_dtype("update_loss_scale", DType::kInt32,
              {args.clean_steps, args.skip, args.skipped_in_a_row, args.step});
  assert(args.scale.defined() == args.clean_steps.defined());
  const LossScalePointers pointers{.norm = args.norm.as<float>(),
                                   .scale = args.scale.as<float>(),
                                   .clean_steps = args.clean_steps.as<std::int32_t>(),
                                   .skip = args.skip.as<std::int32_t>(),
                                   .skipped_in_a_row = args.skipped_in_a_row.as<std::int32_t>(),
                                   .step = args.step.as<std::int32_t>()};
  launch(exec, "update_loss_scale", 1, kWarp, 0, update_loss_scale_kernel, pointers, args.growth_factor,
         args.backoff_factor, args.growth_interval);
}

}  // namespace trireme::cuda
