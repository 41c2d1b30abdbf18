#include "launcher/job/flop_rates.h"

#include <algorithm>
#include <chrono>

#include "launcher/host/elapsed.h"
#include "parallel/foresee/op_calls.h"
#include "parallel/foresee/random_operands.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

/// Total time of `times` products.
double product_seconds(const Context& ctx, const MatmulArgs& args, int times) {
  ctx.backend->synchronize(ctx.exec);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < times; ++i) ctx.run(args);
  ctx.backend->synchronize(ctx.exec);
  return seconds_since(start) / times;
}

double product_rate(const Context& ctx, const Precision& precision) {
  constexpr std::int64_t kFirst = 256, kLargest = 8192;
  constexpr double kLongEnough_s = 1e-3;  // per product; makes launch overhead negligible
  constexpr int kTries = 8;
  const DType dtype = precision.compute_dtype();
  const RandomOperands operands(ctx);
  double best = 0;
  for (std::int64_t n = kFirst; n <= kLargest; n *= 2) {
    const Tensor a = ctx.empty({n, n}, dtype), b = ctx.empty({n, n}, dtype), d = ctx.empty({n, n}, dtype);
    operands.fill(a);
    operands.fill(b);
    const MatmulArgs args{.a = a, .b = b, .d = d, .math = precision.math_of(OpKind::kLinear)};
    const auto extent = static_cast<double>(n);
    const double operations = 2 * extent * extent * extent;
    product_seconds(ctx, args, 1);  // warm-up: libraries choose their kernels
    const double once = product_seconds(ctx, args, 1);
    best = std::max(best, operations / once);
    if (once < kLongEnough_s && n < kLargest) continue;
    for (int i = 0; i < kTries; ++i) best = std::max(best, operations / product_seconds(ctx, args, 1));
    break;
  }
  return best;
}

}  // namespace

double step_operations(const PlannedJob& job) {
  // Only the options that determine the arithmetic, not the layout.
  const EngineOptions plain{.optimizer = job.options.optimizer,
                            .rules = job.options.rules,
                            .precision = job.options.precision,
                            .loss_scale = job.options.loss_scale};
  double operations = 0;
  for (const OpCall& call : record_step({job.blocks, plain, job.sample, 1}).calls) {
    operations += call.cost.operations;
  }
  return operations * static_cast<double>(job.options.global_batch);
}

double measure_product_rate(Device device, int threads, const Precision& precision) {
  try {
    return product_rate(Context::create(device, threads), precision);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return 0;
  }
}

std::optional<double> PeakRate::utilization(double rate) {
  if (rate > flops_per_s_) flops_per_s_ = 0;
  return flops_per_s_ > 0 ? std::optional(rate / flops_per_s_) : std::nullopt;
}

}  // namespace trireme
