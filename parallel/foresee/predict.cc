#include "parallel/foresee/predict.h"

#include <algorithm>

#include "parallel/comm/recording.h"
#include "parallel/plan/plan_text.h"
#include "parallel/reduce/reduction_tree.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Collects the peaks of a step action by action. The allocator's peaks are reset after each action, and the
// peaks of the step are computed from the peaks of its actions.
class NeedRecorder {
 public:
  NeedRecorder(Allocator& allocator, const MeshGroups& groups)
      : allocator_(allocator), groups_(groups), sent_before_(groups.sent_bytes()) {}

  void after_action() {
    const MemoryStats stats = allocator_.stats();
    for (std::size_t c = 0; c < stats.peak.bytes.size(); ++c) {
      step_.peak.bytes[c] = std::max(step_.peak.bytes[c], stats.peak.bytes[c]);
    }
    if (stats.peak_total > step_.peak_total) {
      step_.peak_total = stats.peak_total;
      step_.at_peak = stats.at_peak;
    }
    if (stats.device_peak > step_.device_peak) {
      step_.device_peak = stats.device_peak;
      step_.at_device_peak = stats.at_device_peak;
    }
    const std::int64_t sent = groups_.sent_bytes();
    needs_.push_back({.alive = stats.at_peak,
                      .peak = stats.peak,
                      .device_peak = stats.device_peak,
                      .sent_bytes = sent - sent_before_});
    sent_before_ = sent;
    allocator_.reset_peak();
  }

  MemoryStats step() const {
    MemoryStats stats = step_;
    stats.current = allocator_.stats().current;
    return stats;
  }
  std::vector<ActionNeed> take_needs() { return std::move(needs_); }

 private:
  Allocator& allocator_;
  const MeshGroups& groups_;
  MemoryStats step_;
  std::int64_t sent_before_;
  std::vector<ActionNeed> needs_;
};

// The calls of all groups of a rank.
std::vector<RecordedCall> calls_of(const MeshGroups& groups) {
  std::vector<RecordedCall> all;
  for (const Communicator* comm : groups.all()) {
    const auto& calls = dynamic_cast<const RecordingCommunicator&>(*comm).calls();
    all.insert(all.end(), calls.begin(), calls.end());
  }
  return all;
}

std::array<std::int64_t, kNumCallKinds> sent_by_call(const std::vector<RecordedCall>& calls) {
  std::array<std::int64_t, kNumCallKinds> sent{};
  for (const RecordedCall& call : calls) sent[static_cast<std::size_t>(call.kind)] += call.sent_bytes;
  return sent;
}

EngineOptions on_meta(EngineOptions options, const SampleSpec& sample) {
  if (options.backend == nullptr) options.backend = &meta_backend_for(options.device.type);
  options.device = {DeviceType::kMeta};
  options.threads = 1;
  options.memory_limit = std::nullopt;
  options.timeout_s = 0;
  options.sample = sample;
  return options;
}

std::unique_ptr<Engine> make_engine(const std::shared_ptr<const BlockList>& blocks,
                                    const EngineOptions& options, int num_ranks, int rank) {
  const auto comm = std::make_shared<RecordingCommunicator>(rank, num_ranks);
  EngineOptions here = options;
  here.hosts = hosts_like(options.hosts, num_ranks);
  expect_mesh_splits(*comm, mesh_of(num_ranks, options.layout.pipeline, options.layout.tensor),
                     exchange_of(here, num_ranks).data_ranks_per_host);
  return std::make_unique<Engine>(blocks, comm, here);
}

StepPrediction play_step(Engine& engine, const SampleSpec& sample) {
  const auto sent_before = sent_by_call(calls_of(engine.groups()));
  NeedRecorder recorder(*engine.context().allocator, engine.groups());
  engine.observe_actions([&](std::size_t) { recorder.after_action(); });
  const StepResult result = engine.step(batches_without_data(sample), 1, 0.0);
  const auto rank = static_cast<std::size_t>(engine.communicator().rank());
  StepPrediction prediction{.memory = recorder.step(),
                            .sent_bytes = result.sent_bytes,
                            .sent_by_call = sent_by_call(calls_of(engine.groups())),
                            .actions = recorder.take_needs(),
                            .snapshot_bytes = engine.snapshot() ? engine.snapshot()->size_bytes() : 0,
                            .plan = engine.plan().ranks[rank]};
  for (std::size_t c = 0; c < sent_before.size(); ++c) prediction.sent_by_call[c] -= sent_before[c];
  for (const auto& block : engine.blocks()) prediction.unit_names.push_back(block->name());
  return prediction;
}

/// The number of sums that a data rank keeps after each of its micro-batches: [Note: canonical reduction].
std::vector<std::size_t> kept_sums(const BatchLayout& batch, int rank) {
  std::vector<std::size_t> kept;
  ReductionStack stack;
  for (std::int64_t i = 0; i < batch.count_of(rank); ++i) {
    stack.push({batch.first_of(rank) + i, 0});
    kept.push_back(stack.entries().size());
  }
  return kept;
}

/// True if a rank that keeps `a` never keeps more than a rank that keeps `b`, for the same work.
bool keeps_no_more(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  return a.size() == b.size() && std::ranges::equal(a, b, std::ranges::less_equal{});
}

/// Data ranks, one of which needs the most memory, whatever the size of a sum.
std::vector<int> largest_data_ranks(const BatchLayout& batch) {
  std::vector<std::pair<int, std::vector<std::size_t>>> largest;
  for (int rank = 0; rank < batch.data_ranks; ++rank) {
    std::vector<std::size_t> kept = kept_sums(batch, rank);
    const auto is_covered = [&](const auto& other) { return keeps_no_more(kept, other.second); };
    if (std::ranges::any_of(largest, is_covered)) continue;
    std::erase_if(largest, [&](const auto& other) { return keeps_no_more(other.second, kept); });
    largest.emplace_back(rank, std::move(kept));
  }
  // The ranks that probably reach a limit soonest come first.
  std::ranges::stable_sort(largest, std::ranges::greater{},
                           [](const auto& one) { return std::ranges::max(one.second); });
  std::vector<int> ranks;
  for (const auto& [rank, kept] : largest) ranks.push_back(rank);
  return ranks;
}

}  // namespace

std::vector<int> ranks_of_largest_needs(const EngineOptions& options, int num_ranks) {
  const Mesh mesh = mesh_of(num_ranks, options.layout.pipeline, options.layout.tensor);
  const bool sums_each_micro_batch = options.layout.reduces_each_micro_batch();
  std::vector<int> data_ranks{0};  // all do the same if they keep no partial sums
  if (options.reduction == Reduction::kCanonical && !sums_each_micro_batch) {
    data_ranks = largest_data_ranks({.global_batch = options.global_batch,
                                     .micro_batch = options.micro_batch,
                                     .data_ranks = mesh.size(Axis::kData)});
  }
  std::vector<int> ranks;
  for (int stage = 0; stage < mesh.size(Axis::kPipeline); ++stage) {
    for (const int data : data_ranks) {
      // The first tensor rank has the biases that are added once.
      for (int place = 0; place < std::min(mesh.size(Axis::kTensor), 2); ++place) {
        ranks.push_back(mesh.rank({{Axis::kPipeline, stage}, {Axis::kData, data}, {Axis::kTensor, place}}));
      }
    }
  }
  return ranks;
}

const ActionNeed& StepPrediction::update() const {
  const auto first = std::ranges::find(plan.actions, ActionKind::kOptimStep, &Action::kind);
  return actions.at(static_cast<std::size_t>(first - plan.actions.begin()));
}

std::int64_t StepPrediction::state_bytes() const {
  const MemoryCounts& alive = update().alive;
  return alive[MemoryCategory::kParameters] + alive[MemoryCategory::kGradients] +
         alive[MemoryCategory::kOptimizer] + alive[MemoryCategory::kHost] - snapshot_bytes;
}

std::size_t StepPrediction::peak_action() const {
  const auto largest = std::ranges::max_element(
      actions, [](const ActionNeed& a, const ActionNeed& b) { return a.alive.total() < b.alive.total(); });
  return static_cast<std::size_t>(largest - actions.begin());
}

std::size_t StepPrediction::device_peak_action() const {
  const auto largest = std::ranges::max_element(actions, {}, &ActionNeed::device_peak);
  return static_cast<std::size_t>(largest - actions.begin());
}

std::size_t StepPrediction::peak_action(MemoryCategory category) const {
  const auto largest = std::ranges::max_element(
      actions, [&](const ActionNeed& a, const ActionNeed& b) { return a.peak[category] < b.peak[category]; });
  return static_cast<std::size_t>(largest - actions.begin());
}

std::string StepPrediction::describe(std::size_t action) const {
  return to_text(plan.actions[action], unit_names);
}

std::vector<std::vector<int>> classes_of_equal_needs(const BatchLayout& batch, const Mesh& mesh) {
  std::vector<std::vector<int>> classes;  // of data ranks, the same in every stage
  std::vector<std::vector<int>> levels_of_class;
  for (int rank = 0; rank < batch.data_ranks; ++rank) {
    std::vector<int> levels;
    for (const Subtree& sum : partial_sums(batch.first_of(rank), batch.count_of(rank)))
      levels.push_back(sum.level);
    const auto same = std::ranges::find(levels_of_class, levels);
    if (same != levels_of_class.end()) {
      classes[static_cast<std::size_t>(same - levels_of_class.begin())].push_back(rank);
    } else {
      levels_of_class.push_back(std::move(levels));
      classes.push_back({rank});
    }
  }
  std::vector<std::vector<int>> all;
  // The first tensor rank has the biases that are added once.
  const auto add = [&](int stage, const std::vector<int>& data_ranks, int first_place, int last_place) {
    if (first_place == last_place) return;
    std::vector<int>& ranks = all.emplace_back();
    for (const int data : data_ranks) {
      for (int place = first_place; place < last_place; ++place) {
        ranks.push_back(mesh.rank({{Axis::kPipeline, stage}, {Axis::kData, data}, {Axis::kTensor, place}}));
      }
    }
  };
  for (int stage = 0; stage < mesh.size(Axis::kPipeline); ++stage) {
    for (const std::vector<int>& data_ranks : classes) {
      add(stage, data_ranks, 0, 1);
      add(stage, data_ranks, 1, mesh.size(Axis::kTensor));
    }
  }
  return all;
}

std::unique_ptr<Engine> engine_on_meta(const PlannedJob& job, int rank) {
  return make_engine(job.blocks, on_meta(job.options, job.sample), job.num_ranks, rank);
}

BatchSource batches_without_data(const SampleSpec& sample) {
  return [sample](std::int64_t, std::int64_t count) {
    HostBatch batch{.input_shape = sample.input.batched(count),
                    .target_shape = sample.target.batched(count),
                    .input_dtype = sample.input_dtype,
                    .target_dtype = sample.target_dtype};
    if (sample.target_weights) {
      batch.target_weights.resize(static_cast<std::size_t>(batch.weights_shape().num_elems()));
    }
    batch.target_positions.resize(static_cast<std::size_t>(count * sample.target_positions));
    if (sample.documents) {
      const auto tokens = static_cast<std::size_t>(batch.input_shape.num_elems());
      batch.documents.key_bounds.resize(2 * tokens);
      batch.documents.positions.resize(tokens);
      batch.documents.types.resize(tokens);
    }
    if (sample.timesteps) batch.timesteps.resize(static_cast<std::size_t>(count));
    if (sample.condition.rank() > 0) {
      batch.condition_shape = sample.condition.batched(count);
      batch.condition.resize(static_cast<std::size_t>(batch.condition_shape.num_elems()));
    }
    if (sample.classes) batch.classes.resize(static_cast<std::size_t>(count));
    return batch;
  };
}

StepPrediction predict_step(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                            const SampleSpec& sample, int num_ranks, int rank) {
  return play_step(*engine_on_meta({blocks, std::move(options), sample, num_ranks}, rank), sample);
}

StepPrediction predict_largest_step(const std::shared_ptr<const BlockList>& blocks,
                                    const EngineOptions& options, const SampleSpec& sample, int num_ranks) {
  StepPrediction largest;
  for (const int rank : ranks_of_largest_needs(options, num_ranks)) {
    StepPrediction prediction = predict_step(blocks, options, sample, num_ranks, rank);
    if (largest.actions.empty() || prediction.memory.device_peak > largest.memory.device_peak) {
      largest = std::move(prediction);
    }
  }
  return largest;
}

std::optional<StepPrediction> predict_within(std::int64_t limit,
                                             const std::shared_ptr<const BlockList>& blocks,
                                             EngineOptions options, const SampleSpec& sample, int num_ranks) {
  options = on_meta(std::move(options), sample);
  options.planning = Planning::kOwnRank;
  options.memory_limit = limit;
  StepPrediction largest;
  for (const int rank : ranks_of_largest_needs(options, num_ranks)) {
    try {
      StepPrediction prediction = play_step(*make_engine(blocks, options, num_ranks, rank), sample);
      if (prediction.memory.device_peak > limit) return std::nullopt;
      if (largest.actions.empty() || prediction.memory.device_peak > largest.memory.device_peak) {
        largest = std::move(prediction);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      return std::nullopt;
    }
  }
  return largest;
}

}  // namespace trireme
