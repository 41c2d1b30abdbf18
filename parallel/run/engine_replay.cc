// Which gradient made a step be skipped. A skipped step leaves the parameters as they were, and everything is
// deterministic: so the same step is played again, with a look at the gradients after every backward. Steps
// that are not skipped pay nothing for it.
#include <fmt/core.h>

#include <cmath>
#include <tuple>

#include "parallel/run/engine.h"

namespace trireme {
namespace {

// Micro-batch, unit and index in the unit's parameters; unit -1 for none.
struct Place {
  std::int64_t micro_batch = -1;
  int unit = -1, index = -1;
};

// In the order of micro-batches, and then of backward.
bool comes_before(const Place& a, const Place& b) {
  return std::tuple(a.micro_batch, -a.unit, -a.index) < std::tuple(b.micro_batch, -b.unit, -b.index);
}

}  // namespace

std::optional<NonFiniteGradient> Engine::find_non_finite_gradient(const StepResult& skipped,
                                                                  const BatchSource& source,
                                                                  std::int64_t num_targets) {
  // The replay takes the place of both buffers below, so that it needs no memory beyond that of the step.
  const auto in_sum = skipped.step == steps_done_ ? non_finite_sum() : std::nullopt;
  ExecutionInput input{.source = source,
                       .batch = batch_,
                       .num_targets = num_targets,
                       .rng = {.seed = options_.seed, .step = static_cast<std::uint32_t>(skipped.step - 1)},
                       .training = true};
  if (scaler_->scale().defined()) {
    input.gradient_scale = training_.scalars.clip;
    ctx_.backend->copy_from_host(ctx_.exec, input.gradient_scale, &skipped.loss_scale);
  }
  Place mine;
  const auto look = [&](int micro_batch, const GradAccumulator::Leaf& leaf) {
    const int group = layout_.buckets[static_cast<std::size_t>(leaf.bucket)].group;
    const auto found = find_non_finite(ctx_, layout_, leaf.bucket, leaf.gradient,
                                       training_.norm_partials[static_cast<std::size_t>(group)]);
    if (!found) return;
    const Place here{.micro_batch = batch_.global_micro_batch(groups_.coord()[Axis::kData], micro_batch),
                     .unit = found->unit,
                     .index = found->index};
    if (mine.unit < 0 || comes_before(here, mine)) mine = here;
  };
  if (graph_) graph_->reset();
  executor_->replay(plan_.ranks[static_cast<std::size_t>(groups_.world->rank())], input, *gradients_, look);

  Place first;
  int rank = -1;
  const auto places = groups_.world->all_gather_value(mine);
  for (int r = 0; r < groups_.world->size(); ++r) {
    const Place& place = places[static_cast<std::size_t>(r)];
    if (place.unit < 0 || (first.unit >= 0 && !comes_before(place, first))) continue;
    first = place;
    rank = r;
  }
  if (first.unit < 0) return in_sum;
  const ParamUse& use =
      layout_.uses[static_cast<std::size_t>(first.unit)][static_cast<std::size_t>(first.index)];
  return NonFiniteGradient{
      .block = (*blocks_)[static_cast<std::size_t>(first.unit)]->name(),
      .parameter =
          layout_.groups[static_cast<std::size_t>(use.group)].slots[static_cast<std::size_t>(use.slot)].name,
      .micro_batch = first.micro_batch,
      .rank = rank};
}

// From the norm of the last step, which every rank has of all groups.
std::optional<NonFiniteGradient> Engine::non_finite_sum() const {
  for (std::size_t g = layout_.groups.size(); g-- > 0;) {
    const std::vector<float> norms = ctx_.to_host(training_.norm_partials[g]);
    const ParamGroup& group = layout_.groups[g];
    for (auto slot = group.slots.rbegin(); slot != group.slots.rend(); ++slot) {
      const auto begin = static_cast<std::size_t>(slot->offset / kNormBlock);
      const std::size_t end =
          begin + static_cast<std::size_t>((slot->shape.num_elems() + kNormBlock - 1) / kNormBlock);
      for (std::size_t i = begin; i < end; ++i) {
        if (std::isfinite(norms[i])) continue;
        return NonFiniteGradient{.block = (*blocks_)[static_cast<std::size_t>(slot->block)]->name(),
                                 .parameter = slot->name};
      }
    }
  }
  return std::nullopt;
}

}  // namespace trireme
