#include "parallel/foresee/layout_bounds.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "parallel/layout/block_work.h"
#include "parallel/foresee/folded_plan.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/plan_peaks.h"
#include "parallel/foresee/short_step.h"
#include "parallel/foresee/step_price.h"
#include "parallel/layout/boundary_shapes.h"
#include "runtime/base/for_each_index.h"

namespace trireme {
namespace {

bool is_over_data(ActionKind kind) {
  return traits(kind).scope == Scope::kData || traits(kind).scope == Scope::kHost;
}

std::int64_t bytes_of_output(BoundaryShapes& shapes, int unit, std::int64_t num_samples) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : shapes.of(unit, {.num_samples = num_samples})) {
    const std::int64_t of_tensor = spec.shape.num_elems() * size_bytes(spec.dtype);
    bytes += static_cast<std::int64_t>(Allocator::rounded(static_cast<std::size_t>(of_tensor)));
  }
  return bytes;
}

/// The index after a rank's first forward through its first chunk.
std::size_t end_of_first_forward(std::span<const Action> actions, const StageMap& stages) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (action.kind == ActionKind::kForward &&
        action.unit + 1 == stages.end_unit(stages.chunk_of(action.unit)))
      return i + 1;
  }
  return actions.size();
}

/// The first action after which a rank computes only the backward of one micro-batch through one chunk, its
/// last work before the update.
std::size_t begin_of_last_backward(std::span<const Action> actions, const StageMap& stages) {
  std::size_t first = actions.size();
  const Action* last = nullptr;
  for (std::size_t i = actions.size(); i-- > 0;) {
    const Action& action = actions[i];
    if (!computes(action.kind)) continue;
    if (last == nullptr) last = &action;
    const bool is_same = action.kind != ActionKind::kForward && action.micro_batch == last->micro_batch &&
                         stages.chunk_of(action.unit) == stages.chunk_of(last->unit);
    if (!is_same) break;
    first = i;
  }
  return first;
}

/// Time of an action that runs a block, including the exchanges of its tensor ranks; 0 for other actions.
double block_ms(const StepPrice& price, const Action& action) {
  const bool is_exchange = is_tensor_call(action.kind);
  if (!computes(action.kind) && !is_exchange) return 0;
  const ActionTime time = price.of({}, action);
  return time.compute_ms + (is_exchange ? time.exchange_ms.value_or(0) : 0);
}

/// The end of the first rank's last block.
double end_of_compute(const Timeline& timeline) {
  double end_ms = 0;
  for (const TimelineSpan& span : timeline.spans) {
    const bool is_compute = span.spent != TimeSpent::kExchange && span.spent != TimeSpent::kUpdate;
    if (span.rank == 0 && is_compute) end_ms = std::max(end_ms, span.end_ms);
  }
  return end_ms;
}

/// A plan of one rank without peers: the given actions, without messages.
StepPlan alone(const StepPlan& plan, std::span<const Action> actions) {
  StepPlan alone{.mesh = mesh_of(1, 1, 1), .num_units = plan.num_units, .stages = plan.stages};
  RankPlan& rank = alone.ranks.emplace_back();
  std::ranges::copy_if(actions, std::back_inserter(rank.actions), [](const Action& action) {
    return traits(action.kind).direction == Direction::kNone;
  });
  return alone;
}

}  // namespace

LayoutBounds::BlocksKey LayoutBounds::key_of(const EngineOptions& options) {
  return {options.layout.tensor, options.micro_batch, options.layout.recompute_every,
          options.layout.recompute, options.layout.sequence};
}

LayoutBounds::BlockNeeds LayoutBounds::needs_of(const PlannedJob& layout) const {
  PlannedJob alone = layout;
  EngineOptions& options = alone.options;
  alone.num_ranks = options.layout.tensor;
  options.global_batch = options.micro_batch;
  options.layout = options.layout.unstaged();
  options.layout.zero = ZeroStage::kNone;
  options.layout.exchange = Exchange::kAuto;
  options.hosts = hosts_of(alone.num_ranks, alone.num_ranks);
  options.planning = Planning::kOwnRank;
  const std::size_t num_blocks = layout.blocks->size();
  BlockNeeds needs{.ms = std::vector<double>(num_blocks),
                   .recompute_ms = std::vector<double>(num_blocks),
                   .kept_bytes = std::vector<std::int64_t>(num_blocks),
                   .output_bytes = std::vector<std::int64_t>(num_blocks),
                   .gradient_bytes = std::vector<std::int64_t>(num_blocks)};
  const StepPrice price(alone, cluster_, device_, PricedRanks::kFirstTensorPlace);
  const std::unique_ptr<Engine> engine = engine_on_meta(alone);
  const auto alive = [&](MemoryCategory category) {
    return engine->context().allocator->stats().current[category];
  };
  const std::int64_t before = alive(MemoryCategory::kActivations);
  std::int64_t gradients = alive(MemoryCategory::kGradients);
  bool recomputes = false;
  engine->observe_actions([&](std::size_t index) {
    const Action& action = engine->plan().ranks[0].actions[index];
    if (action.kind == ActionKind::kForward)
      needs.kept_bytes[static_cast<std::size_t>(action.unit)] = alive(MemoryCategory::kActivations) - before;
    if (action.kind == ActionKind::kBackward) {
      const std::int64_t others = std::exchange(gradients, alive(MemoryCategory::kGradients));
      needs.gradient_bytes[static_cast<std::size_t>(action.unit)] = gradients - others;
    }
    if (computes(action.kind)) recomputes = action.kind == ActionKind::kRecompute;
    // The last stage keeps its last segment, which may begin earlier than the last segment of a single stage.
    const bool may_be_kept = action.unit + options.layout.recompute_every >= std::ssize(needs.ms);
    if (action.unit < 0 || (recomputes && may_be_kept)) return;
    const double ms = block_ms(price, action);
    needs.ms[static_cast<std::size_t>(action.unit)] += ms;
    if (recomputes) needs.recompute_ms[static_cast<std::size_t>(action.unit)] += ms;
  });
  engine->step(batches_without_data(layout.sample), 1, 0.0);
  // A stage may run the last segment again, although the single stage kept it.
  const auto every = std::min(static_cast<std::size_t>(options.layout.recompute_every), num_blocks);
  for (std::size_t unit = num_blocks - every; unit < num_blocks; ++unit) {
    needs.kept_bytes[unit] = unit == 0 ? 0 : needs.kept_bytes[unit - 1];
  }
  BoundaryShapes shapes(*layout.blocks, options.precision, layout.sample,
                        options.layout.sequence ? options.layout.tensor : 1);
  for (std::size_t unit = 0; unit + 1 < num_blocks; ++unit) {
    needs.output_bytes[unit] = bytes_of_output(shapes, static_cast<int>(unit), options.micro_batch);
  }
  return needs;
}

void LayoutBounds::prepare(const std::vector<LayoutFamily>& families, int threads) {
  if (families.empty()) return;
  const PlannedJob& any = families[0].job;
  const std::vector<double> costs = work_costs(*any.blocks, any.sample);
  std::map<BlocksKey, const PlannedJob*> first;
  for (const LayoutFamily& family : families) {
    const Layout& axes = family.job.options.layout;
    first.try_emplace(key_of(family.job.options), &family.job);
    if (axes.pipeline > 1 && !cuts_.contains({axes.pipeline, axes.chunks})) {
      cuts_[{axes.pipeline, axes.chunks}] = cut_evenly(costs, axes.pipeline, axes.chunks);
    }
  }
  const std::vector<std::pair<BlocksKey, const PlannedJob*>> jobs(first.begin(), first.end());
  std::vector<BlockNeeds> found(jobs.size());
  std::vector<std::exception_ptr> failures(jobs.size());
  for_each_index(jobs.size(), threads, [&](std::size_t i) {
    try {
      found[i] = needs_of(*jobs[i].second);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    blocks_[jobs[i].first] = std::move(found[i]);
  }
}

double LayoutBounds::blocks_ms(const PlannedJob& layout) const {
  const EngineOptions& options = layout.options;
  const Layout& axes = options.layout;
  const auto data = axes.data_ranks(layout.num_ranks);
  const auto rounds = static_cast<double>(rounds_of(options, data));
  const BlockNeeds& blocks = blocks_.at(key_of(options));
  if (axes.pipeline == 1) return rounds * std::accumulate(blocks.ms.begin(), blocks.ms.end(), 0.0);
  const StageMap& cut = cuts_.at({axes.pipeline, axes.chunks});
  const std::vector<double> chunks = chunk_costs(cut, blocks.ms);
  const std::vector<double> recomputed = chunk_costs(cut, blocks.recompute_ms);
  // With zb-h1 the gradients of parameters are delayed.
  const double share = axes.schedule == PipelineSchedule::kZeroBubbleH1 ? 1.0 / 3 : 1.0;
  double longest = 0, before = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(axes.pipeline); ++rank) {
    double mine = 0;
    for (std::size_t c = rank; c < chunks.size(); c += static_cast<std::size_t>(axes.pipeline)) {
      mine += chunks[c];
    }
    longest = std::max(longest, share * before + rounds * mine);
    before += chunks[rank] - recomputed[rank];
  }
  return longest;
}

PlannedJob LayoutBounds::with_cut(PlannedJob layout) const {
  Layout& axes = layout.options.layout;
  if (axes.pipeline > 1 && axes.cut.empty()) axes.cut = cuts_.at({axes.pipeline, axes.chunks}).first_units();
  return layout;
}

Timeline LayoutBounds::simulate(const PlannedJob& layout, const StepPlan& plan, const TimeOf& of) const {
  std::vector<std::string> names;
  for (const auto& block : *layout.blocks) names.push_back(block->name());
  return simulate_plan(plan,
                       {.unit_names = names, .of = of, .overlap = cluster_.host.overlap, .labels = false});
}

/// A chunk keeps less than its blocks if it sends its output away.
ChunkBytes LayoutBounds::chunk_bytes(const StageMap& stages, const BlockNeeds& blocks) const {
  ChunkBytes chunks;
  for (int chunk = 0; chunk < stages.num_chunks(); ++chunk) {
    const auto first = static_cast<std::size_t>(stages.first_unit(chunk));
    const auto last = static_cast<std::size_t>(stages.end_unit(chunk)) - 1;
    const std::int64_t before = first == 0 ? 0 : blocks.kept_bytes[first - 1];
    const std::int64_t kept = blocks.kept_bytes[last] - before - blocks.output_bytes[last];
    chunks.kept.push_back(std::max<std::int64_t>(0, kept));
    chunks.gradients.push_back(0);
    for (std::size_t unit = first; unit <= last; ++unit) {
      chunks.gradients.back() += blocks.gradient_bytes[unit];
    }
  }
  return chunks;
}

PipelineBound LayoutBounds::pipeline(const PlannedJob& asked) const {
  const PlannedJob layout = with_cut(asked);
  const StepPlan plan = fold_plan(layout, 1);
  const StepPrice price(layout, cluster_, device_, PricedRanks::kFirstTensorPlace);
  const auto time_of = [&](int rank, const Action& action) -> ActionTime {
    const ActionTime time = price.of(plan.mesh.coord(rank), action);
    if (computes(action.kind) || is_tensor_call(action.kind)) return time;
    return {.compute_ms = 0, .exchange_ms = is_send(action.kind) ? time.exchange_ms : std::nullopt};
  };
  PipelineBound bound{.ms = end_of_compute(simulate(layout, plan, time_of))};
  const ChunkBytes chunks = chunk_bytes(plan.stages, blocks_.at(key_of(layout.options)));
  const int data_ranks = layout.options.layout.data_ranks(layout.num_ranks);
  for (const RankPlan& rank : plan.ranks) {
    const PlanPeaks peaks = peaks_of(rank.actions, plan.stages, chunks, layout.options.reduction, data_ranks);
    bound.bytes.push_back(peaks);
  }
  return bound;
}

double LayoutBounds::step_ms(const PlannedJob& asked, double pipeline_ms) const {
  PlannedJob layout = with_cut(asked);
  layout.options.planning = Planning::kOwnRank;
  const StepPlan plan = engine_on_meta(layout)->plan();
  const std::span<const Action> actions = plan.ranks[0].actions;
  const StepPrice price(layout, cluster_, device_, PricedRanks::kFirst);
  const auto played = [&](std::span<const Action> part) {
    return simulate(layout, alone(plan, part),
                    [&](int, const Action& action) { return price.of({}, action); });
  };
  const auto known_ms = [&](std::span<const Action> part) {  // already counted in pipeline_ms
    double sum = 0;
    for (const Action& action : part) sum += block_ms(price, action);
    return sum;
  };
  const auto first = actions.first(end_of_first_forward(actions, plan.stages));
  const auto last = actions.subspan(begin_of_last_backward(actions, plan.stages));
  const double before_ms = std::max(0.0, end_of_compute(played(first)) - known_ms(first));
  const double after_ms = std::max(0.0, played(last).end_ms() - known_ms(last));
  double exchange_ms = 0;
  for (const Action& action : actions) {
    if (is_over_data(action.kind)) exchange_ms += price.of({}, action).exchange_ms.value_or(0);
  }
  return std::max(before_ms + pipeline_ms + after_ms, exchange_ms);
}

double LayoutBounds::simulated_ms(const PlannedJob& asked) const {
  const PlannedJob layout = with_cut(asked);
  const StepPlan plan = fold_plan(layout, 1);
  const StepPrice price(layout, cluster_, device_, PricedRanks::kFirstTensorPlace);
  const auto time_of = [&](int rank, const Action& action) {
    return price.of(plan.mesh.coord(rank), action);
  };
  return simulate(layout, plan, time_of).end_ms();
}

std::int64_t LayoutBounds::state_bytes(const PlannedJob& layout, ZeroStage zero) const {
  const int stages = layout.options.layout.pipeline;
  const StateKey key{layout.options.layout.tensor, stages, zero};
  {
    const std::lock_guard lock(mutex_);
    const auto known = state_bytes_.find(key);
    if (known != state_bytes_.end()) return known->second;
  }
  PlannedJob whole = layout;  // all stages on one
  whole.num_ranks = layout.num_ranks / stages;
  whole.options.layout.zero = zero;
  whole.options.layout = whole.options.layout.unstaged();
  whole.options.global_batch = layout.options.micro_batch * whole.num_ranks / layout.options.layout.tensor;
  whole.options.hosts = hosts_of(whole.num_ranks, whole.num_ranks);
  whole.options.planning = Planning::kOwnRank;
  std::int64_t bytes = 0;  // 0 if the engine refuses it, as it will refuse the layout
  try {
    const MemoryStats made = engine_on_meta(whole)->context().allocator->stats();
    bytes = made.current.total() - made.current[MemoryCategory::kHost];
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
  }
  const std::lock_guard lock(mutex_);
  return state_bytes_[key] = bytes;
}

bool LayoutBounds::may_fit(const PlannedJob& layout, std::int64_t limit, bool may_be_cut) const {
  PlannedJob brief = short_step(with_cut(layout), 2 * layout.options.layout.pipeline, Shortened::kNoLonger);
  brief.options.planning = Planning::kOwnRank;
  const Mesh mesh = mesh_of(brief.num_ranks, brief.options.layout.pipeline, brief.options.layout.tensor);
  const int stages = mesh.size(Axis::kPipeline);
  std::vector<std::int64_t> bytes;
  for (int stage = 0; stage < stages; ++stage) {
    const int rank = mesh.rank({{Axis::kPipeline, stage}});
    const StepPrediction step =
        predict_step(brief.blocks, brief.options, brief.sample, brief.num_ranks, rank);
    bytes.push_back(step.memory.device_peak);
    if (!may_be_cut && bytes.back() > limit) return false;
  }
  return may_be_cut_within(bytes, limit);
}

std::vector<std::int64_t> LayoutBounds::needed_bytes(const PlannedJob& layout,
                                                     const PipelineBound& pipeline) const {
  const EngineOptions& options = layout.options;
  std::int64_t state = state_bytes(layout, options.layout.zero);
  if (options.layout.keeps_parameters()) {
    state = std::max(state, state_bytes(layout, ZeroStage::kGradients));
  }
  const bool once_a_step = !options.layout.reduces_each_micro_batch();
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(options.layout.pipeline),
                                  state / options.layout.pipeline);
  for (std::size_t stage = 0; stage < pipeline.bytes.size(); ++stage) {
    const PlanPeaks& peaks = pipeline.bytes[stage];
    bytes[stage] += once_a_step ? peaks.once_a_step : peaks.each_micro_batch;
  }
  return bytes;
}

}  // namespace trireme
