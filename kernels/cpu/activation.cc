#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const ActivationFwdArgs& args) {
  check_one_float_type("activation_fwd", {args.x, args.y});
  const std::int64_t n = args.y.num_elems();
  assert(args.x.num_elems() == n);
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    float* y = place(args.y, first, buffer);
    const float* x = read(args.x, first, count, y);
    if (x != y) std::copy(x, x + count, y);
    numerics().activation->epilogue({.d = y,
                                     .rows = 1,
                                     .cols = count,
                                     .pitch = count,
                                     .bias = nullptr,
                                     .pre_activation = nullptr,
                                     .residual = nullptr,
                                     .residual_pitch = 0,
                                     .activation = args.activation});
    write(args.y, first, count, y);
  });
}

void run_op(const KernelContext& exec, const ActivationBwdArgs& args) {
  check_one_float_type("activation_bwd", {args.dy, args.pre, args.dx});
  const std::int64_t n = args.dx.num_elems();
  assert(args.dy.num_elems() == n && args.pre.num_elems() == n);
  if (args.activation == Activation::kNone) {
    if (args.dx.data != args.dy.data) copy(exec, args.dx, args.dy);
    return;
  }
  const ActivationNumerics& activation = *numerics().activation;
  const auto bwd = args.activation == Activation::kTanh   ? activation.tanh_bwd
                   : args.activation == Activation::kSilu ? activation.silu_bwd
                   : args.activation == Activation::kGelu ? activation.gelu_bwd
                                                          : activation.gelu_tanh_bwd;
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float dy[kBuffer], pre[kBuffer];
    const float* from = read(args.dy, first, count, dy);
    float* dx = place(args.dx, first, dy);
    bwd(from, read(args.pre, first, count, pre), dx, count);
    write(args.dx, first, count, dx);
  });
}

}  // namespace trireme::cpu
