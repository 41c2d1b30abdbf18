// Plays a rank's plan: hands each action to what runs it. The only place that knows both blocks and ranks.
#pragma once

#include "kernels/backend_marks.h"
#include "parallel/plan/plan.h"
#include "parallel/run/execution_input.h"
#include "parallel/run/optimizer_step.h"
#include "parallel/run/rank_parts.h"
#include "parallel/run/step_phases.h"
#include "parallel/run/tied_parameters.h"

namespace trireme {

class Executor {
 public:
  /// Both outlive this.
  Executor(const RankParts& parts, TiedParameters& tied) : parts_(parts), tied_(tied) {}

  /// Called after each action of run() with its place in the plan; null: nobody. How a prediction learns
  /// which action needs what.
  using ActionObserver = std::function<void(std::size_t action)>;
  void observe_actions(ActionObserver observer) { observer_ = std::move(observer); }

  /// Of the training steps that run() plays; null: none. Outlives this.
  void time_actions(PhaseClock* clock) { clock_ = clock; }

  /// Plays all actions in order; a replay has no `optimizer_step`. An Error that an action throws is
  /// rethrown with rank, action and block in front. Returns the losses of all micro-batches by data rank and
  /// its micro-batch, [M] fp32 on the device.
  ///
  /// With ExecutionInput::observe_leaves it is a replay, of the forwards and backwards of a training plan
  /// alone: no gradient is summed, no parameter changes, nothing is returned. It needs no more memory than
  /// the step, as everything in it is alive at the same moments or shorter. Collective where parameters are
  /// sharded.
  Tensor run(const RankPlan& plan, const ExecutionInput& input, OptimizerStep* optimizer_step);

  /// Plays the plan of an evaluation. Returns losses as run() does, in host memory.
  std::vector<float> evaluate(const RankPlan& plan, const ExecutionInput& input,
                              OptimizerStep* optimizer_step);

  /// Runs all blocks forward on the same batch on every rank, without targets (collective where parameters
  /// are sharded); returns what the last block returns (logits). Throws Error(kUnsupported) where the model
  /// is cut into stages.
  Tensor infer(const HostBatch& batch, KeyValueCache* cache);

 private:
  struct Run;  // one play
  std::string describe(const ExecutionInput& input, const Action& action, std::size_t position) const;
  std::string range_name(const Action& action) const;
  void play_all(Run& run, const RankPlan& plan);
  void play_named(Run& run, const Action& action, std::size_t position);
  void play(Run& run, const Action& action);
  void exchange_over_data(const Action& action);
  void for_groups(int unit, void (ParamStore::*change)(int group));
  /// From each rank's own. Collective over the world.
  Tensor all_losses(const Tensor& mine) const;
  std::vector<float> all_losses(const std::vector<float>& mine) const;

  const RankParts& parts_;
  TiedParameters& tied_;
  const DeviceMarks* const marks_ = device_marks_of(*parts_.ctx.backend, parts_.ctx.exec);
  ActionObserver observer_;
  PhaseClock* clock_ = nullptr;
};

}  // namespace trireme
