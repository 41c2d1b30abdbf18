#include "parallel/foresee/plan_peaks.h"

#include <algorithm>
#include <bit>

namespace trireme {
namespace {

/// The number of gradient sums of a chunk after `num_backward` of `all` backwards. The last backward starts
/// their exchange, so what remains then is not counted.
int num_sums(std::int64_t num_backward, std::int64_t all, int leaves_of_each, Reduction reduction) {
  if (num_backward == all) return 0;
  if (reduction != Reduction::kCanonical) return num_backward > 0 ? 1 : 0;
  return std::popcount(static_cast<std::uint64_t>(num_backward * leaves_of_each));
}

bool ends_backward(const Action& action, const StageMap& stages) {
  return computes(action.kind) && traits(action.kind).sums_gradient &&
         action.unit == stages.first_unit(stages.chunk_of(action.unit));
}

}  // namespace

PlanPeaks peaks_of(const std::vector<Action>& actions, const StageMap& stages, const ChunkBytes& chunks,
                   Reduction reduction, int data_ranks) {
  PlanPeaks peaks;
  std::int64_t activations = 0, sums = 0, pieces = 0;
  std::vector<std::int64_t> num_backward(chunks.gradients.size()), all(chunks.gradients.size());
  for (const Action& action : actions) {
    if (ends_backward(action, stages)) ++all[static_cast<std::size_t>(stages.chunk_of(action.unit))];
  }
  for (const Action& action : actions) {
    if (!computes(action.kind)) continue;
    const int chunk = stages.chunk_of(action.unit);
    const auto c = static_cast<std::size_t>(chunk);
    const bool is_last = action.unit + 1 == stages.end_unit(chunk);
    if (is_last && action.kind == ActionKind::kForward) activations += chunks.kept[c];
    peaks.once_a_step = std::max(peaks.once_a_step, activations + sums);
    peaks.each_micro_batch = std::max(peaks.each_micro_batch, activations + pieces);
    if (is_last && traits(action.kind).consumes_tape) activations -= chunks.kept[c];
    if (!ends_backward(action, stages)) continue;
    const std::int64_t n = num_backward[c]++;
    const auto more_sums = [&](int leaves_of_each) {
      return num_sums(n + 1, all[c], leaves_of_each, reduction) -
             num_sums(n, all[c], leaves_of_each, reduction);
    };
    sums += chunks.gradients[c] * more_sums(1);
    pieces += chunks.gradients[c] / data_ranks * more_sums(data_ranks);
  }
  return peaks;
}

}  // namespace trireme
