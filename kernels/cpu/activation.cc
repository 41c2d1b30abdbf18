#include <cassert>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void activation_bwd(const KernelContext& exec, const ActivationBwdArgs& args) {
  check_fp32("activation_bwd", {args.dy, args.pre, args.dx});
  const std::int64_t n = args.dx.num_elems();
  assert(args.dy.num_elems() == n && args.pre.num_elems() == n);
  const float *dy = args.dy.as<float>(), *pre = args.pre.as<float>();
  float* dx = args.dx.as<float>();
  if (args.activation == Activation::kNone) {
    if (args.dx.data != args.dy.data) copy(exec, args.dx, args.dy);
    return;
  }
  for_each_range(exec, n, 4096, [&](std::int64_t first, std::int64_t count) {
    numerics().activation->gelu_bwd(dy + first, pre + first, dx + first, count);
  });
}

}  // namespace trireme::cpu
