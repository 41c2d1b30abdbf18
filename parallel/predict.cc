#include "parallel/predict.h"

#include <algorithm>

#include "parallel/comm/recording.h"
#include "parallel/plan_text.h"
#include "parallel/reduction_tree.h"

namespace trireme {
namespace {

// Collects the peaks of a step action by action: the allocator's measurement starts anew after each, and the
// peaks of the step are put together from theirs.
class NeedRecorder {
 public:
  NeedRecorder(Allocator& allocator, const Communicator& comm)
      : allocator_(allocator), comm_(comm), sent_before_(comm.traffic().sent_bytes) {}

  void after_action() {
    const MemoryStats stats = allocator_.stats();
    for (std::size_t c = 0; c < stats.peak.bytes.size(); ++c) {
      step_.peak.bytes[c] = std::max(step_.peak.bytes[c], stats.peak.bytes[c]);
    }
    if (stats.peak_total > step_.peak_total) {
      step_.peak_total = stats.peak_total;
      step_.at_peak = stats.at_peak;
    }
    const std::int64_t sent = comm_.traffic().sent_bytes;
    needs_.push_back({.alive = stats.at_peak, .peak = stats.peak, .sent_bytes = sent - sent_before_});
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
  const Communicator& comm_;
  MemoryStats step_;
  std::int64_t sent_before_;
  std::vector<ActionNeed> needs_;
};

}  // namespace

std::int64_t StepPrediction::state_bytes() const {
  const MemoryCounts& alive = actions.back().alive;  // of OptimStep
  return alive[MemoryCategory::kParameters] + alive[MemoryCategory::kGradients] +
         alive[MemoryCategory::kOptimizer] + alive[MemoryCategory::kHost];
}

std::size_t StepPrediction::peak_action() const {
  const auto largest = std::ranges::max_element(
      actions, [](const ActionNeed& a, const ActionNeed& b) { return a.alive.total() < b.alive.total(); });
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

std::vector<std::vector<int>> classes_of_equal_needs(const BatchLayout& batch) {
  std::vector<std::vector<int>> classes;
  std::vector<std::vector<int>> levels_of_class;
  for (int rank = 0; rank < batch.data_ranks; ++rank) {
    std::vector<int> levels;
    for (const Subtree& sum : partial_sums(rank * batch.per_rank(), batch.per_rank()))
      levels.push_back(sum.level);
    const auto same = std::ranges::find(levels_of_class, levels);
    if (same != levels_of_class.end()) {
      classes[static_cast<std::size_t>(same - levels_of_class.begin())].push_back(rank);
    } else {
      levels_of_class.push_back(std::move(levels));
      classes.push_back({rank});
    }
  }
  return classes;
}

StepPrediction predict_step(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                            const SampleSpec& sample, int num_ranks, int rank) {
  options.device = {DeviceType::kMeta};
  options.threads = 1;
  options.memory_limit = std::nullopt;
  const auto comm = std::make_shared<RecordingCommunicator>(rank, num_ranks);
  Engine engine(blocks, comm, options);
  const BatchSource shapes_only = [&](std::int64_t, std::int64_t count) {
    HostBatch batch{.input_shape = sample.input.batched(count),
                    .target_shape = sample.target.batched(count),
                    .input_dtype = sample.input_dtype};
    if (sample.target_weights) {
      batch.target_weights.resize(static_cast<std::size_t>(batch.target_shape.num_elems()));
    }
    return batch;
  };
  const std::size_t calls_before = comm->calls().size();
  NeedRecorder recorder(*engine.context().allocator, *comm);
  engine.observe_actions([&](std::size_t) { recorder.after_action(); });
  const StepResult result = engine.step(shapes_only, 1, 0.0);
  StepPrediction prediction{.memory = recorder.step(),
                            .sent_bytes = result.sent_bytes,
                            .actions = recorder.take_needs(),
                            .plan = engine.plan().ranks[static_cast<std::size_t>(rank)]};
  for (std::size_t i = calls_before; i < comm->calls().size(); ++i) {
    const RecordedCall& call = comm->calls()[i];
    prediction.sent_by_call[static_cast<std::size_t>(call.kind)] += call.sent_bytes;
  }
  for (const auto& block : *blocks) prediction.unit_names.push_back(block->name());
  return prediction;
}

StepPrediction predict_largest_step(const std::shared_ptr<const BlockList>& blocks,
                                    const EngineOptions& options, const SampleSpec& sample, int num_ranks) {
  const BatchLayout batch{
      .global_batch = options.global_batch, .micro_batch = options.micro_batch, .data_ranks = num_ranks};
  StepPrediction largest;
  for (const std::vector<int>& ranks : classes_of_equal_needs(batch)) {
    StepPrediction prediction = predict_step(blocks, options, sample, num_ranks, ranks[0]);
    if (largest.actions.empty() || prediction.memory.peak_total > largest.memory.peak_total) {
      largest = std::move(prediction);
    }
  }
  return largest;
}

}  // namespace trireme
