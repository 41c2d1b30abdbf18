// Squared error. A sample is split into pieces of kBuffer elements, whose sums are added in order.
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const SquaredErrorArgs& args) {
  check_one_float_type("squared_error", {args.prediction});
  check_fp32("squared_error",
             {args.target, args.sample_weights, args.sample_errors, args.loss, args.gradient_scale});
  const std::int64_t samples = args.sample_errors.num_elems();
  if (samples == 0) return;
  const std::int64_t elems = args.prediction.num_elems() / samples, pieces = ceil_div(elems, kBuffer);
  assert(args.target.num_elems() == args.prediction.num_elems());
  const float* weights = args.sample_weights.as<float>();
  const float scale = args.gradient_scale.defined() ? *args.gradient_scale.as<float>() : 1.0f;
  const Workspace sums(exec, std::max<std::int64_t>(1, samples * pieces));
  for_each_piece(exec, samples * pieces, samples * elems, [&](std::int64_t piece) {
    const std::int64_t sample = piece / pieces, begin = piece % pieces * kBuffer;
    const std::int64_t first = sample * elems + begin, count = std::min(kBuffer, elems - begin);
    float buffer[kBuffer];
    const float* prediction = read(args.prediction, first, count, buffer);
    const float* target = args.target.as<float>() + first;
    sums.data()[piece] = numerics().elementwise->squared_error(prediction, target, count);
    if (!args.write_gradient) return;
    const float weight = weights != nullptr ? weights[sample] : 1.0f;
    const float factor = 2.0f * weight * args.inv_num_targets / static_cast<float>(elems) * scale;
    float* to = place(args.prediction, first, buffer);
    numerics().elementwise->scaled_difference(prediction, target, factor, to, count);
    write(args.prediction, first, count, to);
  });
  double loss = 0.0;
  for (std::int64_t i = 0; i < samples; ++i) {
    double sum = 0.0;
    for (std::int64_t p = 0; p < pieces; ++p) sum += static_cast<double>(sums.data()[i * pieces + p]);
    const auto error = static_cast<float>(sum / static_cast<double>(elems));
    args.sample_errors.as<float>()[i] = error;
    loss += static_cast<double>(weights != nullptr ? weights[i] : 1.0f) * static_cast<double>(error);
  }
  if (args.loss.defined()) {
    *args.loss.as<float>() = static_cast<float>(loss * static_cast<double>(args.inv_num_targets));
  }
}

}  // namespace trireme::cpu
