#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const MuonMomentumArgs& args) {
  check_fp32("muon_momentum", {args.momentum_buffer, args.update, args.clip});
  check_one_float_type("muon_momentum", {args.grad});
  const std::int64_t n = args.update.num_elems();
  assert(args.momentum_buffer.num_elems() == n && args.grad.num_elems() == n);
  const bool skipped = args.skip.defined() && *args.skip.as<std::int32_t>() != 0;
  const float clip = *args.clip.as<float>(), keep = 1.0f - args.momentum;
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float* update = args.update.as<float>() + first;
    if (skipped) return static_cast<void>(std::fill_n(update, count, 0.0f));
    float buffer[kBuffer];
    const float* grad = read(args.grad, first, count, buffer);
    float* momentum = args.momentum_buffer.as<float>() + first;
    for (std::int64_t i = 0; i < count; ++i) {
      const float g = clip * grad[i];
      momentum[i] += keep * (g - momentum[i]);
      update[i] = args.nesterov ? g + args.momentum * (momentum[i] - g) : momentum[i];
    }
  });
}

void run_op(const KernelContext&, const InverseNormArgs& args) {
  check_fp32("inverse_norm", {args.partials, args.factor});
  double sum = 0.0;
  for (std::int64_t i = 0; i < args.partials.num_elems(); ++i) sum += args.partials.as<float>()[i];
  const double norm = std::sqrt(sum);
  // Written so that a NaN norm gives a NaN factor.
  *args.factor.as<float>() = static_cast<float>(1.0 / (norm < args.epsilon ? double{args.epsilon} : norm));
}

void run_op(const KernelContext& exec, const ScaleAddIdentityArgs& args) {
  check_fp32("scale_add_identity", {args.x, args.y});
  const std::int64_t m = args.y.shape.dim(0);
  assert(args.y.num_elems() == m * m && args.x.num_elems() == m * m);
  for_each_range(exec, m * m, kBuffer, [&](std::int64_t first, std::int64_t count) {
    const float* x = args.x.as<float>() + first;
    float* y = args.y.as<float>() + first;
    for (std::int64_t i = 0; i < count; ++i) y[i] = args.scale * x[i];
    // The diagonal has every (m + 1)-th element.
    for (std::int64_t d = (first + m) / (m + 1) * (m + 1); d < first + count; d += m + 1) {
      y[d - first] += args.identity;
    }
  });
}

}  // namespace trireme::cpu
