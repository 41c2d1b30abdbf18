#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kRange = 16384;

// The working copy of fp32 training, where it is not the master itself.
void write_working(TensorView working, const float* param, std::int64_t first, std::int64_t count) {
  if (!working.defined()) return;
  std::memcpy(working.as<float>() + first, param + first, static_cast<std::size_t>(count) * sizeof(float));
}

bool is_skipped(ConstTensorView skip) {
  return skip.defined() && *skip.as<std::int32_t>() != 0;
}

}  // namespace

void adamw(const KernelContext& exec, const AdamWArgs& args) {
  if (is_skipped(args.skip)) return;
  check_fp32("adamw",
             {args.param, args.exp_avg, args.exp_avg_sq, args.grad, args.working, args.lr, args.clip});
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n && args.exp_avg.num_elems() == n && args.exp_avg_sq.num_elems() == n);
  const double lr = *args.lr.as<float>();
  const int step = *args.step.as<std::int32_t>();
  AdamWRun all{.param = args.param.as<float>(),
               .exp_avg = args.exp_avg.as<float>(),
               .exp_avg_sq = args.exp_avg_sq.as<float>(),
               .grad = args.grad.as<float>(),
               .n = n,
               .clip = *args.clip.as<float>(),
               .beta1 = args.beta1,
               .beta2 = args.beta2,
               .epsilon = args.epsilon,
               .decay = static_cast<float>(lr * args.weight_decay),
               .step_size = static_cast<float>(lr / (1.0 - std::pow(double{args.beta1}, step))),
               .rsqrt_bias2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(double{args.beta2}, step)))};
  for_each_range(exec, n, kRange, [&](std::int64_t first, std::int64_t count) {
    AdamWRun run = all;
    run.param += first;
    run.exp_avg += first;
    run.exp_avg_sq += first;
    run.grad += first;
    run.n = count;
    numerics().optimizer->adamw(run);
    write_working(args.working, all.param, first, count);
  });
}

void sgd(const KernelContext& exec, const SgdArgs& args) {
  if (is_skipped(args.skip)) return;
  check_fp32("sgd", {args.param, args.momentum_buffer, args.grad, args.working, args.lr, args.clip});
  const std::int64_t n = args.param.num_elems();
  assert(args.grad.num_elems() == n);
  SgdRun all{.param = args.param.as<float>(),
             .momentum_buffer = args.momentum_buffer.as<float>(),
             .grad = args.grad.as<float>(),
             .n = n,
             .clip = *args.clip.as<float>(),
             .lr = *args.lr.as<float>(),
             .momentum = args.momentum,
             .weight_decay = args.weight_decay,
             .first_step = *args.step.as<std::int32_t>() == 1,
             .nesterov = args.nesterov};
  for_each_range(exec, n, kRange, [&](std::int64_t first, std::int64_t count) {
    SgdRun run = all;
    run.param += first;
    if (run.momentum_buffer != nullptr) run.momentum_buffer += first;
    run.grad += first;
    run.n = count;
    numerics().optimizer->sgd(run);
    write_working(args.working, all.param, first, count);
  });
}

}  // namespace trireme::cpu
