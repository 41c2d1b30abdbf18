#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

bool is_skipped(ConstTensorView skip) {
  return skip.defined() && *skip.as<std::int32_t>() != 0;
}

}  // namespace

void run_op(const KernelContext& exec, const AdamWArgs& args) {
  if (is_skipped(args.skip)) return;
  check_fp32("adamw", {args.param, args.exp_avg, args.exp_avg_sq, args.lr, args.clip});
  check_one_float_type("adamw", {args.grad});
  if (args.working.defined()) check_one_float_type("adamw", {args.working});
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n && args.exp_avg.num_elems() == n && args.exp_avg_sq.num_elems() == n);
  const double lr = *args.lr.as<float>();
  const int step = *args.step.as<std::int32_t>();
  AdamWRun all{.param = args.param.as<float>(),
               .exp_avg = args.exp_avg.as<float>(),
               .exp_avg_sq = args.exp_avg_sq.as<float>(),
               .n = n,
               .clip = *args.clip.as<float>(),
               .beta1 = args.beta1,
               .beta2 = args.beta2,
               .epsilon = args.epsilon,
               .decay = static_cast<float>(lr * args.weight_decay),
               .step_size = static_cast<float>(lr / (1.0 - std::pow(double{args.beta1}, step))),
               .rsqrt_bias2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(double{args.beta2}, step)))};
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float grad[kBuffer];
    AdamWRun run = all;
    run.param += first;
    run.exp_avg += first;
    run.exp_avg_sq += first;
    run.grad = read(args.grad, first, count, grad);
    run.n = count;
    numerics().optimizer->adamw(run);
    write(args.working, first, count, shifted(run.param, -args.working_center, count, grad));
  });
}

void run_op(const KernelContext& exec, const LionArgs& args) {
  if (is_skipped(args.skip)) return;
  check_fp32("lion", {args.param, args.exp_avg, args.lr, args.clip});
  check_one_float_type("lion", {args.grad});
  if (args.working.defined()) check_one_float_type("lion", {args.working});
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n && args.exp_avg.num_elems() == n);
  const float lr = *args.lr.as<float>();
  LionRun all{.param = args.param.as<float>(),
              .exp_avg = args.exp_avg.as<float>(),
              .n = n,
              .clip = *args.clip.as<float>(),
              .lr = lr,
              .beta1 = args.beta1,
              .beta2 = args.beta2,
              .decay = static_cast<float>(double{lr} * args.weight_decay)};
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float grad[kBuffer];
    LionRun run = all;
    run.param += first;
    run.exp_avg += first;
    run.grad = read(args.grad, first, count, grad);
    run.n = count;
    numerics().optimizer->lion(run);
    write(args.working, first, count, shifted(run.param, -args.working_center, count, grad));
  });
}

void run_op(const KernelContext& exec, const SgdArgs& args) {
  if (is_skipped(args.skip)) return;
  check_fp32("sgd", {args.param, args.momentum_buffer, args.lr, args.clip});
  check_one_float_type("sgd", {args.grad});
  if (args.working.defined()) check_one_float_type("sgd", {args.working});
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n);
  SgdRun all{.param = args.param.as<float>(),
             .momentum_buffer = args.momentum_buffer.as<float>(),
             .n = n,
             .clip = args.clip.defined() ? *args.clip.as<float>() : 1.0f,
             .lr = *args.lr.as<float>(),
             .momentum = args.momentum,
             .weight_decay = args.weight_decay,
             .first_step = *args.step.as<std::int32_t>() == 1,
             .nesterov = args.nesterov};
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float grad[kBuffer];
    SgdRun run = all;
    run.param += first;
    if (run.momentum_buffer != nullptr) run.momentum_buffer += first;
    run.grad = read(args.grad, first, count, grad);
    run.n = count;
    numerics().optimizer->sgd(run);
    write(args.working, first, count, shifted(run.param, -args.working_center, count, grad));
  });
}

}  // namespace trireme::cpu
