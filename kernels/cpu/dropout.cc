#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/random.h"

namespace trireme::cpu {
namespace {

// n elements of a sample that is kept or dropped as a whole.
void drop_whole(const float* x, const float* residual, float* y, std::int64_t n, bool keep, float p) {
  const float inverse = 1.0f / (1.0f - p);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = (keep ? x[i] * inverse : 0.0f) + (residual != nullptr ? residual[i] : 0.0f);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const DropoutArgs& args) {
  check_one_float_type("dropout", {args.x, args.residual, args.y});
  const std::int64_t samples = args.x.shape[0];
  if (samples == 0) return;
  const std::int64_t sample_elems = args.x.num_elems() / samples;
  assert(args.y.num_elems() == args.x.num_elems());
  const std::int64_t ranges = ceil_div(sample_elems, kBuffer);
  const PhiloxKey key = philox_key(args.rng);
  constexpr std::int64_t kWorkPerElem = 4;  // ten rounds of Philox
  for_each_piece(exec, samples * ranges, args.x.num_elems() * kWorkPerElem, [&](std::int64_t piece) {
    const std::int64_t sample = piece / ranges, first = piece % ranges * kBuffer;
    const std::int64_t offset = sample * sample_elems + first;
    const std::int64_t count = std::min(kBuffer, sample_elems - first);
    float x[kBuffer], residual[kBuffer];
    float* y = place(args.y, offset, x);
    if (args.unit == DropUnit::kSample) {
      const auto global = static_cast<std::uint32_t>(args.first_sample + sample);
      const bool keep = uniform_from_bits(args.rng.draw(global, 0)[0]) >= args.p;
      const float* from = read(args.x, offset, count, x);
      drop_whole(from, read(args.residual, offset, count, residual), y, count, keep, args.p);
      write(args.y, offset, count, y);
      return;
    }
    numerics().elementwise->dropout({.x = read(args.x, offset, count, x),
                                     .residual = read(args.residual, offset, count, residual),
                                     .y = y,
                                     .n = count,
                                     .first_elem = args.first_elem + first,
                                     .sample = static_cast<std::uint32_t>(args.first_sample + sample),
                                     .p = args.p,
                                     .key = key});
    write(args.y, offset, count, y);
  });
}

}  // namespace trireme::cpu
