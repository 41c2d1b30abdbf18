#include "parallel/run/non_finite.h"

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

std::optional<UseOfUnit> find_non_finite(const Context& ctx, const ModelLayout& layout, int bucket,
                                         const Tensor& gradient, const Tensor& partials) {
  // Squares of what is not finite are not finite, and no other number of these sizes has such a square: the
  // same test as the one that made the step be skipped.
  ctx.run(SquaredNormBlocksArgs{.x = gradient.slice(0, {partials.num_elems() * kNormBlock}),
                                .partials = partials});
  const std::vector<float> norms = ctx.to_host(partials);
  for (int unit = static_cast<int>(layout.uses.size()) - 1; unit >= 0; --unit) {
    const std::vector<ParamUse>& uses = layout.uses[static_cast<std::size_t>(unit)];
    for (int index = static_cast<int>(uses.size()) - 1; index >= 0; --index) {
      const ParamUse& use = uses[static_cast<std::size_t>(index)];
      if (use.bucket != bucket) continue;
      const ParamSlot& slot =
          layout.groups[static_cast<std::size_t>(use.group)].slots[static_cast<std::size_t>(use.slot)];
      const auto first = norms.begin() + slot.offset / kNormBlock;
      const auto last = first + (slot.shape.num_elems() + kNormBlock - 1) / kNormBlock;
      if (std::any_of(first, last, [](float norm) { return !std::isfinite(norm); })) {
        return UseOfUnit{unit, index};
      }
    }
  }
  return std::nullopt;
}

}  // namespace trireme
