#include "parallel/foresee/remedy_search.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <set>

#include "parallel/foresee/tensor_choice.h"

namespace trireme {
namespace {

// Interleaved stages need one micro-batch each.
std::int64_t fewest_micro_batches(const EngineOptions& options) {
  return options.layout.schedule == PipelineSchedule::kInterleaved ? options.layout.pipeline : 1;
}

std::int64_t data_ranks(const PlannedJob& job) {
  return job.options.layout.data_ranks(job.num_ranks);
}

std::vector<int> tensor_choices(const PlannedJob& job) {
  std::vector<int> choices{job.options.layout.tensor};
  const int chunks = tensor_chunks(*job.blocks);
  for (int more = 2 * job.options.layout.tensor; more <= chunks; more *= 2) {
    if (job.options.layout.sequence && !can_share_sequence(job, more)) break;
    choices.push_back(more);
  }
  return choices;
}

// A micro-batch may have one sample, so the numbers of data ranks that divide the samples are sufficient.
std::set<int> rank_counts(const PlannedJob& job) {
  std::set<int> counts;
  for (const int tensor : tensor_choices(job)) {
    for (std::int64_t data = 1; data <= job.options.global_batch; ++data) {
      const int ranks = static_cast<int>(data) * job.options.layout.pipeline * tensor;
      if (job.options.global_batch % data == 0 && ranks >= job.num_ranks) counts.insert(ranks);
    }
  }
  return counts;
}

// Segments of k of n blocks keep n/k inputs and the tapes of k blocks, so neither the longest nor the
// shortest segments need the least, and blocks differ. Longer segments run fewer blocks again. Returns the
// shortest segments for each number of segments, and the segments that leave only the last blocks over.
std::vector<int> recompute_choices(const PlannedJob& job) {
  const int given = job.options.layout.recompute_every, num_blocks = static_cast<int>(job.blocks->size());
  const auto segments_of = [&](int k) { return (num_blocks + k - 1) / k; };
  std::vector<int> choices{given};
  for (int k = num_blocks - 1; k >= 1; --k) {
    const bool is_shortest = k == 1 || segments_of(k - 1) != segments_of(k);
    if (k != given && (is_shortest || k >= num_blocks - 2)) choices.push_back(k);
  }
  return choices;
}

/// Adds `job` with its choices of accumulation, then with less kept over micro-batches.
void add_accumulations(const PlannedJob& job, std::vector<PlannedJob>& all) {
  const bool keeps_gradients =
      job.options.layout.accumulate_unsharded && job.options.layout.zero >= ZeroStage::kGradients;
  const bool keeps_parameters =
      job.options.layout.keep_gathered && job.options.layout.zero == ZeroStage::kParameters;
  for (const bool drops_parameters : {false, true}) {
    for (const bool drops_gradients : {false, true}) {
      if ((drops_parameters && !keeps_parameters) || (drops_gradients && !keeps_gradients)) continue;
      EngineOptions& options = all.emplace_back(job).options;
      if (drops_parameters) options.layout.keep_gathered = false;
      if (drops_gradients) options.layout.accumulate_unsharded = false;
    }
  }
}

/// For one micro-batch, number of tensor ranks and total number of ranks: recompute, then a shared sequence,
/// then ZeRO.
void add_cheap_changes(PlannedJob layout, const PlannedJob& job, std::vector<PlannedJob>& all) {
  const auto given_zero = static_cast<int>(job.options.layout.zero);
  // With one data rank there is nothing to shard.
  const int last_zero = data_ranks(layout) > 1 ? static_cast<int>(largest_zero(job.options)) : given_zero;
  for (const int k : recompute_choices(job)) {
    layout.options.layout.recompute_every = k;
    for (const bool sequence : {false, true}) {
      const bool is_given = sequence == job.options.layout.sequence;
      if (!is_given && (!sequence || !can_share_sequence(layout, layout.options.layout.tensor))) continue;
      layout.options.layout.sequence = sequence;
      for (int zero = given_zero; zero <= last_zero; ++zero) {
        layout.options.layout.zero = static_cast<ZeroStage>(zero);
        add_accumulations(layout, all);
      }
    }
  }
}

/// In the order of the note.
std::vector<PlannedJob> layouts_of(const PlannedJob& job) {
  std::vector<PlannedJob> all;
  PlannedJob layout = job;
  for (const int ranks : rank_counts(job)) {
    layout.num_ranks = ranks;
    for (std::int64_t micro_batch = job.options.micro_batch; micro_batch >= 1; --micro_batch) {
      layout.options.micro_batch = micro_batch;
      for (const int tensor : tensor_choices(job)) {
        layout.options.layout.tensor = tensor;
        if (ranks % layout.options.layout.model_ranks() != 0) continue;
        const std::int64_t round = micro_batch * data_ranks(layout);
        if (job.options.global_batch % round != 0) continue;
        if (job.options.global_batch / round < fewest_micro_batches(job.options)) continue;
        add_cheap_changes(layout, job, all);
      }
    }
  }
  return all;
}

/// Empty if a rank needs more than `limit`. Tries a step of few micro-batches first, which needs no more than
/// the whole step.
std::optional<StepPrediction> predict(const PlannedJob& layout, std::int64_t limit) {
  EngineOptions few = layout.options;
  few.global_batch = few.micro_batch * data_ranks(layout) * fewest_micro_batches(few);
  const auto within = [&](const EngineOptions& options) {
    return predict_within(limit, layout.blocks, options, layout.sample, layout.num_ranks);
  };
  if (few.global_batch < layout.options.global_batch && !within(few)) return std::nullopt;
  return within(layout.options);
}

/// A smaller data cache, in whole MiB, if that is enough. Nothing else of the job changes; only waiting for
/// data may increase.
std::optional<Remedy> smaller_cache(const PlannedJob& job, std::int64_t limit) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  if (job.options.data_cache_bytes == 0) return std::nullopt;
  Remedy remedy{.job = job};
  EngineOptions& options = remedy.job.options;
  options.data_cache_bytes = 0;
  const auto without = predict(remedy.job, limit);
  if (!without) return std::nullopt;
  const std::int64_t left = limit - without->memory.device_peak;
  options.data_cache_bytes = std::min(job.options.data_cache_bytes - 1, left) / kMiB * kMiB;
  remedy.changes = changes_between(job, remedy.job);
  remedy.peak_bytes = predict(remedy.job, limit)->memory.device_peak;
  return remedy;
}

/// Memory alive in an action besides the model's state: activations (of its block, and kept for backward),
/// the batch, and gathered or exchanged buffers.
std::int64_t bytes_beside_state(const MemoryCounts& alive) {
  return alive[MemoryCategory::kActivations] + alive[MemoryCategory::kCommunication] +
         alive[MemoryCategory::kBatch];
}

/// The action of a block with the most memory besides the state; empty if there is no action of a block.
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

std::optional<Remedy> find_remedy(const PlannedJob& job, std::int64_t limit_bytes) {
  if (auto remedy = smaller_cache(job, limit_bytes)) return remedy;
  for (const PlannedJob& layout : layouts_of(job)) {
    if (const auto prediction = predict(layout, limit_bytes)) {
      return Remedy{.job = layout,
                    .changes = changes_between(job, layout),
                    .peak_bytes = prediction->memory.device_peak};
    }
  }
  return std::nullopt;
}

SmallestLayout smallest_layout(const PlannedJob& job) {
  // The last layouts have the most ranks and the fewest samples. Each one found rules out all that need more.
  StepPrediction least;
  PlannedJob layout_of_least;
  std::int64_t bound = std::numeric_limits<std::int64_t>::max();
  for (const PlannedJob& layout : std::views::reverse(layouts_of(job))) {
    auto prediction = predict(layout, bound);
    if (!prediction) continue;
    bound = prediction->memory.device_peak - 1;
    least = std::move(*prediction);
    layout_of_least = layout;
  }
  SmallestLayout smallest{.changes = changes_between(job, layout_of_least),
                          .peak_bytes = least.memory.device_peak,
                          .action = least.describe(least.device_peak_action())};
  if (const auto i = largest_beside_state(least)) {
    smallest.block = least.unit_names[static_cast<std::size_t>(least.plan.actions[*i].unit)];
    smallest.block_action = least.describe(*i);
    smallest.block_bytes = bytes_beside_state(least.actions[*i].alive);
  }
  return smallest;
}

}  // namespace trireme
