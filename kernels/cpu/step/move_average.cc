#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const MoveAverageArgs& args) {
  check_fp32("move_average", {args.value, args.sample});
  assert(args.value.num_elems() == args.sample.num_elems());
  if (args.skip.defined() && *args.skip.as<std::int32_t>() != 0) return;
  float take = args.momentum;
  if (args.step.defined()) {
    const double ramp = 1 - std::exp(-*args.step.as<std::int32_t>() / args.tau);
    take = static_cast<float>(1 - ramp * (1.0 - args.momentum));
  }
  const float keep = 1.0f - take;
  for_each_range(exec, args.value.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float* value = args.value.as<float>() + first;
    const float* sample = args.sample.as<float>() + first;
    for (std::int64_t i = 0; i < count; ++i) value[i] = keep * value[i] + take * sample[i];
  });
}

}  // namespace trireme::cpu
