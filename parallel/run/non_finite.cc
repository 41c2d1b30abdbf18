#include "parallel/run/non_finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace trireme {

std::string to_string(const NonFiniteGradient& found) {
  const std::string what = fmt::format("parameter '{}' of block '{}'", found.parameter, found.block);
  if (found.micro_batch < 0) return what + ", in the sum over the micro-batches";
  return fmt::format("{}, micro-batch {}, on rank {}", what, found.micro_batch, found.rank);
}

namespace {

// True if any norm block of a parameter has a non-finite square, given the squares of its group.
bool has_non_finite(const std::vector<float>& norms, const ParamSlot& slot) {
  const auto first = norms.begin() + slot.offset / kNormBlock;
  const auto last = first + (slot.shape.num_elems() + kNormBlock - 1) / kNormBlock;
  return std::any_of(first, last, [](float norm) { return !std::isfinite(norm); });
}

}  // namespace

bool NonFiniteSearch::UseGradient::comes_before(const UseGradient& other) const {
  return std::tuple(micro_batch, -unit, -index) < std::tuple(other.micro_batch, -other.unit, -other.index);
}

std::optional<NonFiniteGradient> NonFiniteSearch::find_in_sums() const {
  for (std::size_t g = parts_.layout.groups.size(); g-- > 0;) {
    if (parts_.layout.groups[g].frozen) continue;
    const std::vector<float> norms = parts_.ctx.to_host(optimizer_step_.norm_partials()[g]);
    const auto& slots = parts_.layout.groups[g].slots;
    const auto slot =
        std::find_if(slots.rbegin(), slots.rend(), [&](const auto& s) { return has_non_finite(norms, s); });
    if (slot == slots.rend()) continue;
    return NonFiniteGradient{.block = parts_.blocks[static_cast<std::size_t>(slot->block)]->name(),
                             .parameter = slot->name};
  }
  return std::nullopt;
}

void NonFiniteSearch::look(int micro_batch, const GradAccumulator::Leaf& leaf) {
  const ModelLayout& layout = parts_.layout;
  const int group = layout.buckets[static_cast<std::size_t>(leaf.bucket)].group;
  const Tensor& partials = optimizer_step_.norm_partials()[static_cast<std::size_t>(group)];
  // The same test as the one that skipped the step: for these sizes, a square is non-finite exactly if its
  // number is.
  parts_.ctx.run(SquaredNormBlocksArgs{.x = leaf.gradient.slice(0, {partials.num_elems() * kNormBlock}),
                                       .partials = partials});
  const std::vector<float> norms = parts_.ctx.to_host(partials);
  UseGradient here{.micro_batch = batch_.global_micro_batch(parts_.data_rank(), micro_batch)};
  for (std::size_t unit = 0; unit < layout.uses.size(); ++unit) {
    for (std::size_t index = 0; index < layout.uses[unit].size(); ++index) {
      const ParamUse& use = layout.uses[unit][index];
      const auto& slots = layout.groups[static_cast<std::size_t>(use.group)].slots;
      if (use.bucket != leaf.bucket || !has_non_finite(norms, slots[static_cast<std::size_t>(use.slot)]))
        continue;
      here.unit = static_cast<int>(unit);  // the last match: backward reaches it first
      here.index = static_cast<int>(index);
    }
  }
  if (here.unit >= 0 && (first_.unit < 0 || here.comes_before(first_))) first_ = here;
}

std::optional<NonFiniteGradient> NonFiniteSearch::first_of_ranks() const {
  UseGradient first;
  int rank = -1;
  const auto firsts = parts_.groups.world->all_gather_value(first_);
  for (int r = 0; r < parts_.groups.world->size(); ++r) {
    const UseGradient& one = firsts[static_cast<std::size_t>(r)];
    if (one.unit < 0 || (first.unit >= 0 && !one.comes_before(first))) continue;
    first = one;
    rank = r;
  }
  if (first.unit < 0) return std::nullopt;
  const ParamUse& use =
      parts_.layout.uses[static_cast<std::size_t>(first.unit)][static_cast<std::size_t>(first.index)];
  const auto& slots = parts_.layout.groups[static_cast<std::size_t>(use.group)].slots;
  return NonFiniteGradient{.block = parts_.blocks[static_cast<std::size_t>(first.unit)]->name(),
                           .parameter = slots[static_cast<std::size_t>(use.slot)].name,
                           .micro_batch = first.micro_batch,
                           .rank = rank};
}

}  // namespace trireme
