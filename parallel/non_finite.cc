#include "parallel/non_finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {

std::string to_string(const NonFiniteGradient& found) {
  const std::string what = fmt::format("parameter '{}' of block '{}'", found.parameter, found.block);
  if (found.micro_batch < 0) return what + ", in the sum over the micro-batches";
  return fmt::format("{}, micro-batch {}, on rank {}", what, found.micro_batch, found.rank);
}

int find_non_finite(const Context& ctx, const ModelLayout& layout, int unit, std::span<const Tensor> leaves) {
  // Squares of what is not finite are not finite, and no other number of these sizes has such a square: the
  // same test as the one that made the step be skipped.
  std::vector<std::vector<float>> norms;
  for (const Tensor& leaf : leaves) {
    const Tensor partials = ctx.empty({leaf.num_elems() / kNormBlock});
    ctx.backend->squared_norm_blocks(ctx.exec, {.x = leaf, .partials = partials});
    norms.push_back(ctx.to_host(partials));
  }
  const std::vector<int>& buckets = layout.unit_buckets[static_cast<std::size_t>(unit)];
  const std::vector<ParamUse>& uses = layout.uses[static_cast<std::size_t>(unit)];
  for (int index = static_cast<int>(uses.size()) - 1; index >= 0; --index) {
    const ParamUse& use = uses[static_cast<std::size_t>(index)];
    const ParamSlot& slot =
        layout.groups[static_cast<std::size_t>(use.group)].slots[static_cast<std::size_t>(use.slot)];
    const std::vector<float>& of_bucket =
        norms[static_cast<std::size_t>(std::ranges::find(buckets, use.bucket) - buckets.begin())];
    const auto first = of_bucket.begin() + slot.offset / kNormBlock;
    const auto last = first + (slot.shape.num_elems() + kNormBlock - 1) / kNormBlock;
    if (std::any_of(first, last, [](float norm) { return !std::isfinite(norm); })) return index;
  }
  return -1;
}

}  // namespace trireme
