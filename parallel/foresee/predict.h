// The memory and traffic of a step, found by running its plan on the meta device: same engine, same blocks,
// nothing computed. See [Note: memory accounting].
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/call_kind.h"
#include "parallel/run/engine.h"

namespace trireme {

/// A training job to foresee: what the ranks' engines will be made from.
struct PlannedJob {
  std::shared_ptr<const BlockList> blocks;
  EngineOptions options;  // threads and memory_limit are ignored; of the device only workspaces are counted
  SampleSpec sample;
  int num_ranks = 1;
};

/// An engine of the job's rank `rank` that counts and computes nothing: for its plan, layout and stages.
std::unique_ptr<Engine> engine_on_meta(const PlannedJob& job, int rank = 0);

/// Batches of the right shapes for it, without data.
BatchSource batches_without_data(const SampleSpec& sample);

/// The needs of one action of the plan.
struct ActionNeed {
  MemoryCounts alive;            // at the moment within the action when the total was largest
  MemoryCounts peak;             // each category's own peak within the action
  std::int64_t device_peak = 0;  // with workspaces
  std::int64_t sent_bytes = 0;   // by the calls that the action makes
};

struct StepPrediction {
  // Equal to the byte to StepResult::memory of a run, without workspaces. These are attention's on cuda, an
  // upper bound of what libraries of any version need for it (kernels/attention_workspace.h), else 0.
  MemoryStats memory;
  std::int64_t sent_bytes = 0;                             // equal to StepResult::sent_bytes
  std::array<std::int64_t, kNumCallKinds> sent_by_call{};  // the same, by kind of call
  std::vector<ActionNeed> actions;                         // by place in the rank's plan
  std::int64_t snapshot_bytes = 0;                         // of MemoryCategory::kHost: [Note: snapshots]
  RankPlan plan;
  std::vector<std::string> unit_names;

  /// The need of the first OptimStep: all gradients are there.
  const ActionNeed& update() const;
  /// Parameters, gradients and optimizer state (offloaded or not) when the optimizer steps: what the formulas
  /// of ZeRO count.
  std::int64_t state_bytes() const;
  /// The first action at whose worst moment as much is alive as ever.
  std::size_t peak_action() const;
  /// The same with workspaces.
  std::size_t device_peak_action() const;
  /// The first action in which a category reaches its peak.
  std::size_t peak_action(MemoryCategory category) const;
  /// "Backward unit 3 (head) micro-batch 0".
  std::string describe(std::size_t action) const;
};

/// Ranks that need the same memory: of one stage, by the partial sums that they keep (see [Note: canonical
/// reduction]): one class a stage where the micro-batches of a rank are a power of two, else several. Each in
/// ascending order, by stage and first rank.
std::vector<std::vector<int>> classes_of_equal_needs(const BatchLayout& batch, const Mesh& mesh);

/// Ranks of which one needs most, by stage: those that keep no more sums than another at any time are left
/// out.
std::vector<int> ranks_of_largest_needs(const EngineOptions& options, int num_ranks);

/// Predicts a step of rank `rank` of `num_ranks`. See PlannedJob::options.
StepPrediction predict_step(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                            const SampleSpec& sample, int num_ranks, int rank);
/// The same of the rank whose peak, with workspaces, is the largest.
StepPrediction predict_largest_step(const std::shared_ptr<const BlockList>& blocks,
                                    const EngineOptions& options, const SampleSpec& sample, int num_ranks);

// For a search over many layouts. No plan is validated: whoever runs a layout that was found does that.

/// predict_largest_step(), or nothing where a rank needs more than `limit` bytes: known as soon as the first
/// allocation goes beyond it.
std::optional<StepPrediction> predict_within(std::int64_t limit,
                                             const std::shared_ptr<const BlockList>& blocks,
                                             EngineOptions options, const SampleSpec& sample, int num_ranks);
}  // namespace trireme
