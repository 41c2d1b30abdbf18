#include <cassert>
#include <cmath>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext&, const UpdateLossScaleArgs& args) {
  check_fp32("update_loss_scale", {args.norm, args.scale});
  assert(args.scale.defined() == args.clean_steps.defined());
  const bool skip = !std::isfinite(*args.norm.as<float>());
  *args.skip.as<std::int32_t>() = skip ? 1 : 0;
  std::int32_t& in_a_row = *args.skipped_in_a_row.as<std::int32_t>();
  in_a_row = skip ? in_a_row + 1 : 0;
  if (!skip) *args.step.as<std::int32_t>() += 1;
  if (!args.scale.defined() || args.growth_interval == 0) return;
  float& scale = *args.scale.as<float>();
  std::int32_t& clean = *args.clean_steps.as<std::int32_t>();
  clean = skip ? 0 : clean + 1;
  if (skip) {
    scale *= args.backoff_factor;
  } else if (clean == args.growth_interval) {
    if (std::isfinite(scale * args.growth_factor)) scale *= args.growth_factor;
    clean = 0;
  }
}

}  // namespace trireme::cpu
