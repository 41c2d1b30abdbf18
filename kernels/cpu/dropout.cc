#include <cassert>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/random.h"

namespace trireme::cpu {

void dropout(const KernelContext& exec, const DropoutArgs& args) {
  check_fp32("dropout", {args.x, args.residual, args.y});
  const std::int64_t samples = args.x.shape[0];
  if (samples == 0) return;
  const std::int64_t sample_elems = args.x.num_elems() / samples;
  assert(args.y.num_elems() == args.x.num_elems());
  constexpr std::int64_t kRange = 4096;
  const std::int64_t ranges = ceil_div(sample_elems, kRange);
  const PhiloxKey key = philox_key(args.rng);
  constexpr std::int64_t kWorkPerElem = 4;  // ten rounds of Philox
  for_each_piece(exec, samples * ranges, args.x.num_elems() * kWorkPerElem, [&](std::int64_t piece) {
    const std::int64_t sample = piece / ranges, first = piece % ranges * kRange;
    const std::int64_t offset = sample * sample_elems + first;
    numerics().elementwise->dropout(
        {.x = args.x.as<float>() + offset,
         .residual = args.residual.defined() ? args.residual.as<float>() + offset : nullptr,
         .y = args.y.as<float>() + offset,
         .n = std::min(kRange, sample_elems - first),
         .first_elem = first,
         .sample = static_cast<std::uint32_t>(args.first_sample + sample),
         .p = args.p,
         .key = key});
  });
}

}  // namespace trireme::cpu
