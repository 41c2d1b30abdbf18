// Plays a rank's plan: dispatches each action. The only file that handles both blocks and ranks.
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

  /// Called after each action of run() with its index in the plan; may be null. Predictions use it to find
  /// which action needs which memory.
  using ActionObserver = std::function<void(std::size_t action)>;
  void observe_actions(ActionObserver observer) { observer_ = std::move(observer); }

  /// Times the training steps that run() plays; null: none. `clock` outlives this.
  void time_actions(PhaseClock* clock) { clock_ = clock; }

  /// Plays all actions in order. `optimizer_step` is null in a replay. An Error in an action is rethrown with
  /// rank, action and block in front. Returns the losses of all micro-batches, by data rank and local
  /// micro-batch, [M] fp32 on the device.
  ///
  /// With ExecutionInput::observe_leaves the run is a replay: it plays only the forwards and backwards of a
  /// training plan. No gradient is summed, no parameter changes, and nothing is returned. A replay needs no
  /// more memory than the step, because everything is alive at the same moments or shorter. Collective if
  /// parameters are sharded.
  Tensor run(const RankPlan& plan, const ExecutionInput& input, OptimizerStep* optimizer_step);

  /// Plays the plan of an evaluation. Returns losses as run() does, in host memory.
  std::vector<float> evaluate(const RankPlan& plan, const ExecutionInput& input,
                              OptimizerStep* optimizer_step);

  /// Runs all blocks forward on the same batch on every rank, without targets (collective if parameters are
  /// sharded). Returns the output of the last block (logits). Throws Error(kUnsupported) if the model is cut
  /// into stages.
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
  /// Sets the losses of `run`, and its divisor in a training step. Collective over the world.
  void reduce_loss(Run& run) const;
  /// Gathers the losses, and counts if there are any, of the last stage, by data rank. Collective over the
  /// world.
  Tensor all_losses(const Tensor& mine) const;
  std::vector<float> all_losses(const std::vector<float>& mine) const;

  const RankParts& parts_;
  TiedParameters& tied_;
  const DeviceMarks* const marks_ = device_marks_of(*parts_.ctx.backend, parts_.ctx.exec);
  ActionObserver observer_;
  PhaseClock* clock_ = nullptr;
};

}  // namespace trireme
