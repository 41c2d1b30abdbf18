#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const MoveAverageArgs& args) {
  check_fp32("move_average", {args.value, args.sample});
  assert(args.value.num_elems() == args.sample.num_elems());
  if (args.skip.defined() && *args.skip.as<std::int32_t>() != 0) return;
  const float keep = 1.0f - args.momentum;
  for_each_range(exec, args.value.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float* value = args.value.as<float>() + first;
    const float* sample = args.sample.as<float>() + first;
    for (std::int64_t i = 0; i < count; ++i) value[i] = keep * value[i] + args.momentum * sample[i];
  });
}

}  // namespace trireme::cpu
