// The end of a training step on a rank: gradient norm, clipping, the decision to skip (AMP), and the update.
// Its collectives are actions of the plan, written by plan/step_end.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/run/rank_parts.h"
#include "parallel/run/state_check.h"
#include "runtime/loss_scaler.h"

namespace trireme {

class OptimizerStep {
 public:
  struct Options {
    const Optimizer& optimizer;
    LossScaler& scaler;
    float max_norm = 0.0f;              // 0: no clipping
    StateVerifier* verifier = nullptr;  // null: no verification
  };
  OptimizerStep(const RankParts& parts, const Options& options);

  /// Called in each step with complete gradients, before the update. See Engine::observe_gradients.
  using GradientObserver = std::function<void(const std::string& name, const Tensor& gradient)>;
  void observe_gradients(GradientObserver observer) { observer_ = std::move(observer); }
  bool is_observed() const { return observer_ != nullptr; }

  /// Called in each step when loss and norm are known, before the update. See Engine::leave_out_steps.
  using LeavesOut = std::function<bool(const Tensor& losses)>;
  void leave_out_where(LeavesOut decide) { leaves_out_ = std::move(decide); }

  void set_learning_rate(double lr);

  // Actions, in this order:

  void compute_norms();
  /// Gathers the norms of the other data ranks' pieces. Collective over the data axis.
  void gather_norms();
  /// Gathers the norms of the other tensor ranks' chunks. Collective over the tensor axis.
  void gather_chunk_norms();
  /// Collective over the pipeline axis.
  void broadcast_norms();
  /// `losses` of the whole step, as Executor::run returns them. `divisor`: of [Note: counted losses], or
  /// undefined.
  void clip(const Tensor& losses, const Tensor& divisor);
  /// Updates the unit's parameters that this rank owns and trains.
  void update(int unit);
  /// Swaps the unit's parameters that this rank owns, in an evaluation. See ParamStore::swap_averages.
  void swap_averages(int unit);
  /// See ParamStore::gather_updated, and gather_in_host().
  void gather_updated(int unit);
  void gather_updated_in_host(int unit);

  /// [] fp32, before clipping and without the loss scale.
  const Tensor& grad_norm() const { return grad_norm_; }
  /// [] int32: see LossScaler::skip.
  const Tensor& skip() const { return scalars_.skip; }
  /// clip_coefficient(): [] fp32. norm_partials(): by group, fp32, one square per norm block; empty for a
  /// frozen group. They hold the values of the last step, and may be overwritten between steps.
  const Tensor& clip_coefficient() const { return scalars_.clip; }
  const std::vector<Tensor>& norm_partials() const { return norm_partials_; }

 private:
  void for_updated_groups(int unit, void (ParamStore::*gather)(int group));
  /// This rank's part of the partial sums of a group; all of them if gradients are not sharded.
  Tensor own_norms(std::size_t group) const;
  /// True if this rank's stage owns a group and trains it.
  bool trains(std::size_t group) const {
    return parts_.params.owns(static_cast<int>(group)) && !parts_.layout.groups[group].frozen;
  }
  void show_gradients() const;

  const RankParts& parts_;
  const Options options_;
  const Sharding sharding_;  // of gradients and masters over the data axis
  const UpdateScalars scalars_;
  const Tensor grad_norm_;
  Tensor all_norm_partials_;           // one number per norm block of every (padded) group
  std::vector<Tensor> norm_partials_;  // slices of it
  GradientObserver observer_;
  LeavesOut leaves_out_;  // empty: no step is left out
};

}  // namespace trireme
