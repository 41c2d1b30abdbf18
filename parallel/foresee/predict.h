// Predicts memory and traffic of a step by running its plan on the meta device: the same engine and blocks,
// without computation. See [Note: memory accounting].
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/call_kind.h"
#include "parallel/run/engine.h"

namespace trireme {

/// A training job to predict: the arguments of the ranks' engines.
struct PlannedJob {
  std::shared_ptr<const BlockList> blocks;
  EngineOptions options;  // threads and memory_limit are ignored; the device only determines workspaces
  SampleSpec sample;
  int num_ranks = 1;
};

/// An engine for the job's rank `rank` on the meta device: for its plan, layout and stages.
std::unique_ptr<Engine> engine_on_meta(const PlannedJob& job, int rank = 0);

/// Batches of the right shapes for such an engine, without data.
BatchSource batches_without_data(const SampleSpec& sample);

/// The needs of one action of the plan.
struct ActionNeed {
  MemoryCounts alive;            // at the moment within the action when the total was largest
  MemoryCounts peak;             // each category's own peak within the action
  std::int64_t device_peak = 0;  // with workspaces
  std::int64_t sent_bytes = 0;   // by the calls of the action
};

struct StepPrediction {
  // Equal to the byte to StepResult::memory of a run, except for workspaces. Those are predicted for
  // attention on cuda, as an upper bound for libraries of any version (kernels/attention_workspace.h), and
  // are 0 otherwise.
  MemoryStats memory;
  std::int64_t sent_bytes = 0;                             // equal to StepResult::sent_bytes
  std::array<std::int64_t, kNumCallKinds> sent_by_call{};  // the same, by kind of call
  std::vector<ActionNeed> actions;                         // by index in the rank's plan
  std::int64_t snapshot_bytes = 0;                         // part of MemoryCategory::kHost: [Note: snapshots]
  RankPlan plan;
  std::vector<std::string> unit_names;

  /// The need of the first OptimStep, when all gradients are complete.
  const ActionNeed& update() const;
  /// Parameters, gradients and optimizer state (offloaded or not) when the optimizer steps, as counted by the
  /// formulas of ZeRO.
  std::int64_t state_bytes() const;
  /// The first action that reaches the peak of the total.
  std::size_t peak_action() const;
  /// The same with workspaces.
  std::size_t device_peak_action() const;
  /// The first action in which a category reaches its peak.
  std::size_t peak_action(MemoryCategory category) const;
  /// "Backward unit 3 (head) micro-batch 0".
  std::string describe(std::size_t action) const;
};

/// Classes of ranks that need the same memory: ranks of one stage with equal partial sums (see [Note:
/// canonical reduction]). There is one class per stage if the micro-batches of a rank are a power of two,
/// otherwise several. Each class is ascending; classes are ordered by stage and first rank.
std::vector<std::vector<int>> classes_of_equal_needs(const BatchLayout& batch, const Mesh& mesh);

/// Ranks, one of which needs the most memory, by stage. Ranks that never keep more sums than another one are
/// left out.
std::vector<int> ranks_of_largest_needs(const EngineOptions& options, int num_ranks);

/// Predicts a step of rank `rank` of `num_ranks`. See PlannedJob::options.
StepPrediction predict_step(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                            const SampleSpec& sample, int num_ranks, int rank);
/// The same for the rank with the largest peak, including workspaces.
StepPrediction predict_largest_step(const std::shared_ptr<const BlockList>& blocks,
                                    const EngineOptions& options, const SampleSpec& sample, int num_ranks);

// For a search over many layouts. Plans are not validated here; the run of a found layout validates them.

/// predict_largest_step(), or empty if a rank needs more than `limit` bytes. Stops at the first allocation
/// beyond the limit.
std::optional<StepPrediction> predict_within(std::int64_t limit,
                                             const std::shared_ptr<const BlockList>& blocks,
                                             EngineOptions options, const SampleSpec& sample, int num_ranks);
}  // namespace trireme
