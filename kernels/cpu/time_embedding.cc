#include <cassert>
#include <cmath>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

// Angles are products in fp64, so that large timesteps keep their digits.
void run_op(const KernelContext& exec, const TimeEmbeddingArgs& args) {
  check_fp32("time_embedding", {args.timesteps, args.out});
  const std::int64_t samples = args.out.shape[0], dim = args.out.shape[1], half = dim / 2;
  assert(args.timesteps.num_elems() == samples);
  const bool sine_first = args.halves == TimeHalves::kSineFirst;
  const double slope = -std::log(static_cast<double>(args.max_period)) /
                       (static_cast<double>(half) - static_cast<double>(args.frequency_shift));
  for_each_piece(exec, samples, 64 * samples * dim, [&](std::int64_t i) {
    float *row = args.out.as<float>() + i * dim, *sines = sine_first ? row : row + half,
          *cosines = sine_first ? row + half : row;
    const double t = static_cast<double>(args.timesteps.as<float>()[i]) * static_cast<double>(args.scale);
    for (std::int64_t k = 0; k < half; ++k) {
      const double angle = t * std::exp(slope * static_cast<double>(k));
      sines[k] = static_cast<float>(std::sin(angle));
      cosines[k] = static_cast<float>(std::cos(angle));
    }
    if (dim % 2 != 0) row[dim - 1] = 0.0f;
  });
}

}  // namespace trireme::cpu
