#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const SquaredNormBlocksArgs& args) {
  check_one_float_type("squared_norm_blocks", {args.x});
  check_fp32("squared_norm_blocks", {args.partials});
  assert(args.x.num_elems() % kNormBlock == 0 &&
         args.partials.num_elems() == args.x.num_elems() / kNormBlock);
  static_assert(kBuffer % kNormBlock == 0);
  for_each_range(exec, args.x.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    numerics().elementwise->squared_norm_blocks(read(args.x, first, count, buffer),
                                                args.partials.as<float>() + first / kNormBlock,
                                                count / kNormBlock);
  });
}

void run_op(const KernelContext&, const DivideLossesArgs& args) {
  check_fp32("divide_losses", {args.counted, args.losses, args.divisor});
  const std::int64_t ranks = args.counted.shape[0], count = args.counted.shape[2];
  assert(args.losses.num_elems() == ranks * count);
  const float* const counted = args.counted.as<float>();
  double sum = 0.0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (std::int64_t i = 0; i < count; ++i) sum += counted[(2 * r + 1) * count + i];
  }
  const auto inverse = static_cast<double>(args.inv_num_targets);
  const auto divisor = static_cast<float>(inverse == 0.0 ? 1.0 : std::max(1.0, sum) * inverse);
  *args.divisor.as<float>() = divisor;
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (std::int64_t i = 0; i < count; ++i) {
      args.losses.as<float>()[r * count + i] = counted[2 * r * count + i] / divisor;
    }
  }
}

void run_op(const KernelContext&, const ClipCoefficientArgs& args) {
  check_fp32("clip_coefficient", {args.partials, args.norm, args.clip, args.gradient_scale, args.divisor});
  double sum = 0.0;
  for (std::int64_t i = 0; i < args.partials.num_elems(); ++i) sum += args.partials.as<float>()[i];
  double scale = args.gradient_scale.defined() ? *args.gradient_scale.as<float>() : 1.0;
  if (args.divisor.defined()) scale *= static_cast<double>(*args.divisor.as<float>());
  const double norm = std::sqrt(sum) / scale;
  *args.norm.as<float>() = static_cast<float>(norm);
  // Written so that a NaN norm gives a NaN coefficient.
  const double ratio = static_cast<double>(args.max_norm) / (norm + 1e-6);
  *args.clip.as<float>() = static_cast<float>((args.max_norm <= 0.0f || ratio > 1.0 ? 1.0 : ratio) / scale);
}

}  // namespace trireme::cpu
