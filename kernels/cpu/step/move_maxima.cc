#include <algorithm>
#include <cassert>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "runtime/base/fp8.h"

namespace trireme::cpu {

void run_op(const KernelContext&, const MoveMaximaArgs& args) {
  check_fp32("move_maxima", {args.histories, args.samples});
  assert(args.histories.shape.dim(-1) == kFp8HistoryElems);
  if (args.skip.defined() && *args.skip.as<std::int32_t>() != 0) return;
  const std::int64_t rows = args.samples.shape[0], columns = args.samples.shape[1];
  const float* samples = args.samples.as<float>() + args.first_column;
  for (std::int64_t i = 0; i < args.histories.shape[0]; ++i) {
    float amax = 0.0f;
    for (std::int64_t row = 0; row < rows; ++row) {
      amax = std::max(amax, samples[row * columns + i * kFp8HistoryElems]);
    }
    float* history = args.histories.as<float>() + i * kFp8HistoryElems;
    if (fp8_move_history(history, amax)) ++*args.num_clipped.as<std::int32_t>();
  }
}

}  // namespace trireme::cpu
