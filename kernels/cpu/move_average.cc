#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void move_average(const KernelContext& exec, const MoveAverageArgs& args) {
  check_fp32("move_average", {args.value, args.samples});
  if (args.skip.defined() && *args.skip.as<std::int32_t>() != 0) return;
  const float keep = 1.0f - args.momentum;
  const std::int64_t size = args.value.num_elems();
  for_each_column_range(exec, size, size * args.num_samples, [&](std::int64_t first, std::int64_t count) {
    float* value = args.value.as<float>() + first;
    for (std::int64_t m = 0; m < args.num_samples; ++m) {
      const float* sample = args.samples.as<float>() + m * args.pitch + first;
      for (std::int64_t i = 0; i < count; ++i) value[i] = keep * value[i] + args.momentum * sample[i];
    }
  });
}

}  // namespace trireme::cpu
