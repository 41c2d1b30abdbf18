#include "parallel/foresee/layout_bound.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "parallel/foresee/folded_plan.h"
#include "parallel/foresee/step_price.h"
#include "parallel/layout/block_work.h"

namespace trireme {
namespace {

/// Milliseconds of a micro-batch in each block, forward and backward.
struct BlockTimes {
  std::vector<double> all;
  std::vector<double> waited;  // without recompute, which need not wait for a gradient
};

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
  if (action.unit < 0 || (!computes(action.kind) && !is_exchange)) return 0;
  const ActionTime time = price.of({}, action);
  return time.compute_ms + (is_exchange ? time.exchange_ms.value_or(0) : 0);
}

BlockTimes times_of(const PlannedJob& layout, const Cluster& cluster, const ClusterDevice& device) {
  const PlannedJob alone = one_stage(layout);
  const StepPrice price(alone, cluster, device, PricedRanks::kFirstTensorPlace);
  const std::size_t num_blocks = layout.blocks->size();
  BlockTimes times{.all = std::vector<double>(num_blocks), .waited = std::vector<double>(num_blocks)};
  // The last stage keeps its last segment, which may begin earlier than the last segment of a single stage.
  const auto first_kept = static_cast<int>(num_blocks) - alone.options.layout.recompute_every;
  bool recomputes = false;
  const std::unique_ptr<Engine> engine = engine_on_meta(alone);
  for (const Action& action : engine->plan().ranks[0].actions) {
    if (computes(action.kind)) recomputes = action.kind == ActionKind::kRecompute;
    const double ms = block_ms(price, action);
    if (ms == 0 || (recomputes && action.unit >= first_kept)) continue;
    times.all[static_cast<std::size_t>(action.unit)] += ms;
    if (!recomputes) times.waited[static_cast<std::size_t>(action.unit)] += ms;
  }
  return times;
}

double bound_ms(const PlannedJob& layout, const StageMap& cut, const BlockTimes& blocks) {
  const std::vector<double> chunks = chunk_costs(cut, blocks.all), waited = chunk_costs(cut, blocks.waited);
  // With zb-h1 the gradients of parameters are delayed.
  const bool delays = layout.options.layout.schedule == PipelineSchedule::kZeroBubbleH1;
  const double rounds = static_cast<double>(rounds_of(layout)), share = delays ? 1.0 / 3 : 1.0;
  const auto stages = static_cast<std::size_t>(cut.pipeline);
  double longest = 0, before = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    double mine = 0;
    for (std::size_t chunk = stage; chunk < chunks.size(); chunk += stages) mine += chunks[chunk];
    longest = std::max(longest, share * before + rounds * mine);
    before += waited[stage];
  }
  return longest;
}

}  // namespace

void set_block_bounds(std::vector<LayoutCandidate>& candidates, const PlannedJob& job, const Cluster& cluster,
                      const ClusterDevice& device) {
  const std::vector<double> costs = work_costs(*job.blocks, job.sample);
  std::map<std::pair<int, int>, StageMap> cuts;
  std::map<std::tuple<int, std::int64_t, int, Recompute, bool>, BlockTimes> times;
  for (LayoutCandidate& candidate : candidates) {
    const Layout& l = candidate.layout;
    const PlannedJob layout = candidate.of(job);
    const auto [cut, is_new_cut] = cuts.try_emplace({l.pipeline, l.chunks});
    if (is_new_cut) cut->second = cut_evenly(costs, l.pipeline, l.chunks);
    const auto [blocks, is_new] =
        times.try_emplace({l.tensor, candidate.micro_batch, l.recompute_every, l.recompute, l.sequence});
    if (is_new) blocks->second = times_of(layout, cluster, device);
    candidate.bound_ms = bound_ms(layout, cut->second, blocks->second);
  }
}

double simulated_bound_ms(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device) {
  const StepPlan plan = fold_plan(job, 1);
  const StepPrice price(job, cluster, device, PricedRanks::kFirstTensorPlace);
  ActionTimes times{.overlap = cluster.host.overlap, .labels = false};
  for (const auto& block : *job.blocks) times.unit_names.push_back(block->name());
  times.of = [&](int rank, const Action& action) { return price.of(plan.mesh.coord(rank), action); };
  return simulate_plan(plan, times).end_ms();
}

}  // namespace trireme
