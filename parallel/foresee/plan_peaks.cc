#include "parallel/foresee/plan_peaks.h"

#include <algorithm>
#include <bit>

namespace trireme {
namespace {

int num_sums(std::int64_t num_micro_batches, Reduction reduction) {
  const bool is_tree = reduction == Reduction::kCanonical;
  return is_tree ? std::popcount(static_cast<std::uint64_t>(num_micro_batches))
                 : static_cast<int>(num_micro_batches > 0);
}

}  // namespace

PlanPeaks peaks_of(const std::vector<Action>& actions, const StageMap& stages, const ChunkBytes& chunks,
                   Reduction reduction, int data_ranks) {
  PlanPeaks peaks;
  std::int64_t activations = 0, sums = 0, pieces = 0;
  std::vector<std::int64_t> num_backward(chunks.gradients.size());
  for (const Action& action : actions) {
    if (!computes(action.kind)) continue;
    const int chunk = stages.chunk_of(action.unit);
    const auto c = static_cast<std::size_t>(chunk);
    const bool is_last = action.unit + 1 == stages.end_unit(chunk);
    if (is_last && action.kind == ActionKind::kForward) activations += chunks.kept[c];
    peaks.once_a_step = std::max(peaks.once_a_step, activations + sums);
    peaks.each_micro_batch = std::max(peaks.each_micro_batch, activations + pieces);
    if (is_last && traits(action.kind).consumes_tape) activations -= chunks.kept[c];
    if (action.unit == stages.first_unit(chunk) && traits(action.kind).sums_gradient) {
      const std::int64_t n = num_backward[c]++;
      const std::int64_t piece = chunks.gradients[c] / data_ranks;
      sums += chunks.gradients[c] * (num_sums(n + 1, reduction) - num_sums(n, reduction));
      pieces += piece * (num_sums((n + 1) * data_ranks, reduction) - num_sums(n * data_ranks, reduction));
    }
  }
  return peaks;
}

}  // namespace trireme
