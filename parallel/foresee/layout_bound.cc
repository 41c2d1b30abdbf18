#include "parallel/foresee/layout_bound.h"

#include <algorithm>

#include "parallel/foresee/layout_candidates.h"
#include "parallel/foresee/step_price.h"

namespace trireme {
namespace {

/// One micro-batch of the layout's blocks on one stage, without data ranks.
PlannedJob one_stage(PlannedJob layout) {
  EngineOptions& options = layout.options;
  layout.num_ranks = options.layout.tensor;
  options.global_batch = options.micro_batch;
  options.layout = options.layout.unstaged();
  options.layout.zero = ZeroStage::kNone;
  options.layout.exchange = Exchange::kAuto;
  options.hosts = hosts_of(layout.num_ranks, layout.num_ranks);
  options.planning = Planning::kOwnRank;
  return layout;
}

/// Time of an action that runs a block, including the exchanges of its tensor ranks; 0 for other actions.
double block_ms(const StepPrice& price, const Action& action) {
  const bool is_exchange = is_tensor_call(action.kind);
  if (!computes(action.kind) && !is_exchange) return 0;
  const ActionTime time = price.of({}, action);
  return time.compute_ms + (is_exchange ? time.exchange_ms.value_or(0) : 0);
}

}  // namespace

const LayoutBound::BlockTimes& LayoutBound::times_of(const PlannedJob& layout) {
  const Layout& axes = layout.options.layout;
  const auto [at, is_new] = times_.try_emplace(
      {axes.tensor, layout.options.micro_batch, axes.recompute_every, axes.recompute, axes.sequence});
  BlockTimes& times = at->second;
  if (!is_new) return times;
  const PlannedJob alone = one_stage(layout);
  const StepPrice price(alone, cluster_, device_);
  const std::size_t num_blocks = layout.blocks->size();
  times = {.all = std::vector<double>(num_blocks), .waited = std::vector<double>(num_blocks)};
  bool recomputes = false;
  for (const Action& action : engine_on_meta(alone)->plan().ranks[0].actions) {
    if (computes(action.kind)) recomputes = action.kind == ActionKind::kRecompute;
    // The last stage keeps its last segment, which may begin earlier than the last segment of a single stage.
    const bool may_be_kept = action.unit + axes.recompute_every >= std::ssize(times.all);
    if (action.unit < 0 || (recomputes && may_be_kept)) continue;
    const double ms = block_ms(price, action);
    times.all[static_cast<std::size_t>(action.unit)] += ms;
    if (!recomputes) times.waited[static_cast<std::size_t>(action.unit)] += ms;
  }
  return times;
}

double LayoutBound::step_ms(const PlannedJob& layout) {
  const Layout& axes = layout.options.layout;
  const auto [at, is_new] = cuts_.try_emplace({axes.pipeline, axes.chunks});
  StageMap& cut = at->second;
  if (is_new) cut = cut_evenly(costs_, axes.pipeline, axes.chunks);
  const BlockTimes& blocks = times_of(layout);
  const std::vector<double> chunks = chunk_costs(cut, blocks.all), waited = chunk_costs(cut, blocks.waited);
  // With zb-h1 the gradients of parameters are delayed.
  const bool delays = axes.schedule == PipelineSchedule::kZeroBubbleH1;
  const double rounds = static_cast<double>(rounds_of(layout)), share = delays ? 1.0 / 3 : 1.0;
  double longest = 0, before = 0;
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(cut.pipeline); ++stage) {
    double mine = 0;
    for (std::size_t c = stage; c < chunks.size(); c += static_cast<std::size_t>(cut.pipeline))
      mine += chunks[c];
    longest = std::max(longest, share * before + rounds * mine);
    before += waited[stage];
  }
  return longest;
}

}  // namespace trireme
