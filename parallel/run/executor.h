// Plays a rank's plan: the only place that knows both blocks and ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "parallel/layout/boundary_shapes.h"
#include "parallel/layout/param_store.h"
#include "parallel/layout/statistic_store.h"
#include "parallel/mesh/mesh_groups.h"
#include "parallel/plan/plan.h"
#include "parallel/reduce/grad_accumulator.h"
#include "parallel/watch/watchdog.h"
#include "runtime/data/dataset.h"
#include "runtime/loss_scaler.h"
#include "runtime/tape.h"

namespace trireme {

/// Reads samples [first, first + count) of the step's global batch into host memory.
using BatchSource = std::function<HostBatch(std::int64_t first, std::int64_t count)>;

/// Sees what the last block gives without targets, and the targets, of a micro-batch of this rank.
using LogitsObserver = std::function<void(const Tensor& logits, const Tensor& targets)>;

/// What one play of a plan is about.
struct ExecutionInput {
  BatchSource source;
  BatchLayout batch;
  std::int64_t num_targets = 1;  // of the whole global batch: the loss is their mean
  RngKey rng;                    // seed and step
  bool training = true;
  Tensor gradient_scale;  // [] fp32, or undefined: the factor of all gradients (see [Note: loss scaling])
  const std::vector<Batch>* uploaded = nullptr;  // by local micro-batch, in place of `source`; or null
  LogitsObserver observe_logits;                 // in evaluation; null: nobody
};

class Executor {
 public:
  struct Parts {
    const BlockList& blocks;
    const ModelLayout& layout;
    ParamStore& params;
    StatisticStore& statistics;
    const MeshGroups& groups;
    const StageMap& stages;
    BoundaryShapes* shapes;  // null: one stage
    Watchdog* watchdog;      // null: nobody watches
  };
  Executor(Context ctx, const Parts& parts);
  ~Executor();

  /// What the end of a step needs; evaluation leaves them null.
  struct TrainingState {
    GradAccumulator* gradients = nullptr;
    const Optimizer* optimizer = nullptr;
    LossScaler* scaler = nullptr;
    UpdateScalars scalars;
    Tensor grad_norm;                       // [] fp32
    std::vector<Tensor> norm_partials;      // by group, slices of all_norm_partials
    Tensor all_norm_partials;               // fp32, a number a norm block of every (padded) group
    Sharding sharding;                      // of gradients and masters over the data axis
    float max_norm = 0.0f;                  // 0: no clipping
    std::function<void()> after_grad_norm;  // may read the gradients
  };

  /// Called after each action of run() with its place in the plan; null: nobody. How a prediction learns
  /// which action needs what.
  using ActionObserver = std::function<void(std::size_t action)>;
  void observe_actions(ActionObserver observer) { observer_ = std::move(observer); }

  /// Plays all actions in order. An Error that an action throws is rethrown with rank, action and block in
  /// front. Returns the losses of all micro-batches by data rank and its micro-batch. [M] fp32 on the device.
  Tensor run(const RankPlan& plan, const ExecutionInput& input, TrainingState training);

  /// Sends the working copies of tied parameters to the stages that hold a copy. Collective over the pipeline
  /// axis; nothing to do in one stage.
  void share_tied_parameters();

  /// Parameter gradients of a micro-batch of this rank, by bucket (see ModelLayout), once all of the bucket's
  /// blocks have run backward.
  using LeafObserver = std::function<void(int micro_batch, const GradAccumulator::Leaf& leaf)>;
  /// Plays the forwards and backwards of a training plan alone: no gradient is summed, no parameter changes.
  /// Needs no more memory than the step, as everything in it is alive at the same moments or shorter.
  /// Collective where parameters are sharded.
  void replay(const RankPlan& plan, const ExecutionInput& input, GradAccumulator& gradients,
              const LeafObserver& observer);

  /// True when a block has drawn random numbers in any run so far.
  bool draws_random() const { return draws_random_; }

  /// Runs all blocks forward on the same batch on every rank, without targets (collective where parameters
  /// are sharded); returns what the last block returns (logits). Throws Error(kUnsupported) where the model
  /// is cut into stages.
  Tensor infer(const HostBatch& batch);

 private:
  struct MicroBatchUnit;  // a unit's forward, kept for its backward
  struct MicroBatch;      // what is alive of one micro-batch
  struct BackwardPass;    // a unit's backward, about to run
  struct Run;             // one play
  std::string describe(const Run& run, const Action& action, std::size_t position) const;
  void play_named(Run& run, const Action& action, std::size_t position);
  void play(Run& run, const Action& action);
  void change_residency(const Action& action);
  void read_batch(Run& run, int micro_batch);
  void observe_logits(Run& run, const Action& action, Activations input);
  const std::vector<TensorSpec>& boundary(const Run& run, int unit, int micro_batch);
  void send(Run& run, const Action& action);
  void receive(Run& run, const Action& action);
  void exchange_tied(Run& run, const Action& action);
  int stage_of_peer(const Action& action) const { return groups_.mesh.coord(action.peer)[Axis::kPipeline]; }
  void forward(Run& run, const Action& action);
  void recompute(Run& run, const Action& action);
  Activations run_unit(Run& run, const Action& action, MicroBatchUnit* record, Activations input);
  void backward(Run& run, const Action& action);
  void backward_input(Run& run, const Action& action);
  void backward_weight(Run& run, const Action& action);
  BackwardPass begin_backward(Run& run, const Action& action);
  void differentiate(Run& run, const Action& action, BackwardPass pass, Context& ctx);
  void end_backward(Run& run, const Action& action);
  Context backward_context(ParameterResolver& parameters) const;
  void reduce_loss(Run& run);
  Tensor own_norms(const TrainingState& training, std::size_t group) const;
  void grad_norm(Run& run);
  void gather_norms(Run& run);
  void broadcast_norms(Run& run);
  void clip_grad(Run& run);
  void optim_step(Run& run, const Action& action);
  void gather_updated(const Action& action);

  Context ctx_;
  const BlockList& blocks_;
  const ModelLayout& layout_;
  ParamStore& params_;
  StatisticStore& statistics_;
  const MeshGroups& groups_;
  const StageMap& stages_;
  BoundaryShapes* shapes_;
  Watchdog* watchdog_;
  const std::vector<TiedUnits> ties_;
  const Coord coord_;
  ActionObserver observer_;
  bool draws_random_ = false;
};

}  // namespace trireme
