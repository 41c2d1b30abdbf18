#include "launcher/train/remedy_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "launcher/train/build.h"

namespace trireme {
namespace {

/// What is alive in an action beside the model's state: activations, those of its block and those kept for
/// backward, the batch, and gathered or exchanged buffers.
std::int64_t bytes_beside_state(const MemoryCounts& alive) {
  return alive[MemoryCategory::kActivations] + alive[MemoryCategory::kCommunication] +
         alive[MemoryCategory::kBatch];
}

/// The action of a block beside which most is alive; nothing where no action is of a block.
std::optional<std::size_t> largest_beside_state(const StepPrediction& prediction) {
  std::optional<std::size_t> largest;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < prediction.actions.size(); ++i) {
    const std::int64_t bytes = bytes_beside_state(prediction.actions[i].alive);
    if (prediction.plan.actions[i].unit < 0 || bytes <= most) continue;
    most = bytes;
    largest = i;
  }
  return largest;
}

}  // namespace

RemedySearch::RemedySearch(JobConfig config, std::shared_ptr<const BlockList> blocks, int num_ranks,
                           std::int64_t limit_bytes)
    : config_(std::move(config)),
      blocks_(std::move(blocks)),
      num_ranks_(num_ranks),
      limit_bytes_(limit_bytes),
      layouts_(layouts()) {}

std::optional<Remedy> RemedySearch::run() {
  for (const Layout& layout : layouts_) {
    if (at_least(layout) > limit_bytes_) continue;
    if (const auto prediction = predict(layout, limit_bytes_)) {
      return Remedy{.config = job_of(layout),
                    .num_ranks = layout.ranks,
                    .changes = changes_of(layout),
                    .peak_bytes = prediction->memory.peak_total};
    }
  }
  return std::nullopt;
}

SmallestLayout RemedySearch::smallest() {
  // Most promising first: each one found rules out all that need more at least.
  std::vector<std::pair<std::int64_t, Layout>> by_need;
  for (const Layout& layout : layouts_) by_need.emplace_back(at_least(layout), layout);
  std::ranges::stable_sort(by_need, {}, [](const auto& entry) { return entry.first; });
  StepPrediction least;
  Layout layout_of_least;
  std::int64_t bound = std::numeric_limits<std::int64_t>::max();
  for (const auto& [needed, layout] : by_need) {
    if (needed > bound) break;
    if (auto prediction = predict(layout, bound)) {
      bound = prediction->memory.peak_total - 1;
      least = std::move(*prediction);
      layout_of_least = layout;
    }
  }
  SmallestLayout smallest{.changes = changes_of(layout_of_least),
                          .peak_bytes = least.memory.peak_total,
                          .action = least.describe(least.peak_action())};
  if (const auto i = largest_beside_state(least)) {
    smallest.block = least.unit_names[static_cast<std::size_t>(least.plan.actions[*i].unit)];
    smallest.block_action = least.describe(*i);
    smallest.block_bytes = bytes_beside_state(least.actions[*i].alive);
  }
  return smallest;
}

std::vector<RemedySearch::Layout> RemedySearch::layouts() const {
  const std::int64_t stages = config_.parallel.pipeline;
  const std::vector<std::int64_t> recompute = recompute_choices();
  std::vector<Layout> all;
  for (const std::int64_t ranks : rank_counts()) {
    const std::int64_t last_zero =
        ranks > stages ? 3 : config_.parallel.zero;  // alone there is nothing to shard
    for (std::int64_t micro_batch = config_.train.micro_batch; micro_batch >= 1; --micro_batch) {
      const std::int64_t round = micro_batch * (ranks / stages);
      if (config_.train.global_batch % round != 0) continue;
      if (config_.train.global_batch / round < fewest_micro_batches()) continue;
      for (const std::int64_t k : recompute) {
        for (std::int64_t zero = config_.parallel.zero; zero <= last_zero; ++zero) {
          std::ranges::copy(accumulations_of({static_cast<int>(ranks), micro_batch, k, zero}),
                            std::back_inserter(all));
        }
      }
    }
  }
  return all;
}

// "auto" keeps nothing where nothing else fits.
std::vector<RemedySearch::Layout> RemedySearch::accumulations_of(const Layout& layout) const {
  const bool accumulate_unsharded = config_.parallel.accumulate_unsharded.value_or(false);
  const bool keep_gathered = config_.parallel.keep_gathered.value_or(false);
  std::vector<Layout> all;
  for (const bool parameters : {keep_gathered, false}) {
    for (const bool gradients : {accumulate_unsharded, false}) {
      Layout& kept = all.emplace_back(layout);
      kept.accumulate_unsharded = gradients;
      kept.keep_gathered = parameters;
      if (!accumulate_unsharded || layout.zero < 2) break;
    }
    if (!keep_gathered || layout.zero < 3) break;
  }
  return all;
}

// A micro-batch may have one sample, so data ranks that divide the samples are enough.
std::vector<std::int64_t> RemedySearch::rank_counts() const {
  const std::int64_t stages = config_.parallel.pipeline;
  std::vector<std::int64_t> counts;
  for (std::int64_t data = num_ranks_ / stages; data <= config_.train.global_batch; ++data) {
    if (config_.train.global_batch % data == 0) counts.push_back(data * stages);
  }
  return counts;
}

// Segments of k of n blocks keep n/k inputs and what backward needs of k blocks, so neither the longest nor
// the shortest are the smallest, and blocks differ. Long ones run fewer blocks again. Of many blocks, the
// shortest segments of each number of segments, and those that leave only the last blocks over.
std::vector<std::int64_t> RemedySearch::recompute_choices() const {
  constexpr std::int64_t kFewBlocks = 64;
  const std::int64_t given = config_.parallel.recompute_every;
  const auto num_blocks = static_cast<std::int64_t>(blocks_->size());
  const auto segments_of = [&](std::int64_t k) { return (num_blocks + k - 1) / k; };
  std::vector<std::int64_t> choices;
  for (std::int64_t k = num_blocks - 1; k >= 1; --k) {
    const bool shortest = k == 1 || segments_of(k - 1) != segments_of(k);
    if (num_blocks <= kFewBlocks || shortest || k >= num_blocks - 2) choices.push_back(k);
  }
  std::erase(choices, given);
  choices.insert(choices.begin(), given);
  return choices;
}

// Interleaved stages want a micro-batch each.
std::int64_t RemedySearch::fewest_micro_batches() const {
  return config_.parallel.schedule == PipelineSchedule::kInterleaved ? config_.parallel.pipeline : 1;
}

JobConfig RemedySearch::job_of(const Layout& layout) const {
  JobConfig job = config_;
  job.train.micro_batch = layout.micro_batch;
  job.parallel.recompute_every = layout.recompute;
  job.parallel.zero = layout.zero;
  job.parallel.accumulate_unsharded = layout.accumulate_unsharded;
  job.parallel.keep_gathered = layout.keep_gathered;
  if (layout.ranks > 1) job.parallel.cuda_graph = false;  // it wants one rank
  return job;
}

std::int64_t RemedySearch::at_least(const Layout& layout) {
  const std::int64_t state = state_bytes(layout);
  // The activations of several stages depend on how many micro-batches there are.
  if (config_.parallel.pipeline > 1) return state;
  const MicroBatchNeed need = micro_batch_need(layout);
  return state + need.activations + partial_sum_bytes(layout, need.gradients);
}

std::int64_t RemedySearch::state_bytes(const Layout& layout) {
  const auto [state, is_new] = state_.try_emplace({layout.ranks, layout.zero, layout.accumulate_unsharded});
  if (is_new) {
    JobConfig job = job_of(layout);
    job.train.global_batch = job.train.micro_batch * data_ranks(layout) * fewest_micro_batches();
    state->second = std::ranges::max(
        resident_bytes(blocks_, engine_options(job, *blocks_), sample_spec(job), layout.ranks));
  }
  return state->second;
}

RemedySearch::MicroBatchNeed RemedySearch::micro_batch_need(const Layout& layout) {
  const auto [need, is_new] = needs_.try_emplace({layout.micro_batch, layout.recompute});
  if (is_new) {
    JobConfig job = job_of({.micro_batch = layout.micro_batch, .recompute = layout.recompute});
    job.train.global_batch = job.train.micro_batch;
    const StepPrediction alone =
        predict_largest_step(blocks_, engine_options(job, *blocks_), sample_spec(job), 1);
    const auto of_gradients = MemoryCategory::kGradients;
    need->second = {
        .activations = alone.memory.peak[MemoryCategory::kActivations],
        .gradients = alone.actions.back().alive[of_gradients] - alone.memory.current[of_gradients]};
  }
  return need->second;
}

std::int64_t RemedySearch::partial_sum_bytes(const Layout& layout, std::int64_t gradients) const {
  if (config_.parallel.reduction != Reduction::kCanonical) return 0;
  const std::int64_t data = data_ranks(layout);
  const std::int64_t per_rank = config_.train.global_batch / layout.micro_batch / data;
  const auto floor_log2 = [](std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n)) - 1; };
  const auto ceil_log2 = [](std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n - 1)); };
  const bool reduces_each = layout.zero >= 2 && !layout.accumulate_unsharded;
  // The sums of the last micro-batch are already exchanged while it runs.
  const auto sums = reduces_each ? floor_log2(data * (per_rank - 1) + 1) - ceil_log2(3 * data)
                                 : floor_log2(per_rank) - ceil_log2(2);
  return std::max<std::int64_t>(sums, 0) * (reduces_each ? gradients / data : gradients);
}

std::optional<StepPrediction> RemedySearch::predict(const Layout& layout, std::int64_t limit) const {
  JobConfig job = job_of(layout);
  const std::int64_t batch = config_.train.global_batch;
  const auto within = [&] {
    return predict_within(limit, blocks_, engine_options(job, *blocks_), sample_spec(job), layout.ranks);
  };
  job.train.global_batch = job.train.micro_batch * data_ranks(layout);
  const bool accumulates = batch > job.train.global_batch;
  if (accumulates && config_.parallel.pipeline == 1 && !within()) return std::nullopt;
  job.train.global_batch = batch;
  return within();
}

std::vector<std::string> RemedySearch::changes_of(const Layout& layout) const {
  const JobConfig job = job_of(layout);
  std::vector<std::string> changes;
  const auto add = [&](const char* key, auto before, auto now) {
    if (now != before) changes.push_back(fmt::format("{} = {}", key, now));
  };
  add("parallel.zero", config_.parallel.zero, job.parallel.zero);
  add("parallel.accumulate_unsharded", config_.parallel.accumulate_unsharded.value_or(false),
      layout.accumulate_unsharded);
  add("parallel.keep_gathered", config_.parallel.keep_gathered.value_or(false), layout.keep_gathered);
  add("parallel.recompute_every", config_.parallel.recompute_every, job.parallel.recompute_every);
  add("train.micro_batch", config_.train.micro_batch, job.train.micro_batch);
  add("parallel.cuda_graph", config_.parallel.cuda_graph, job.parallel.cuda_graph);
  if (layout.ranks != num_ranks_) changes.push_back(fmt::format("{} ranks", layout.ranks));
  return changes;
}

}  // namespace trireme
