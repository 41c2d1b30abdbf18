// The engine as a library: blocks in, training steps out.
//
//   Engine engine(std::move(blocks), LocalWorld(1).communicator(0), {.global_batch = 32, .micro_batch = 8});
//   StepResult result = engine.step(source, targets_per_step, 1e-3);
//
// step() is enqueue_step(), which never waits for the device, followed by collect(), which does. The
// constructor lays the parameters out, plans the step and validates the plan of all ranks; step() plays it.
// Every rank of the communicator constructs an Engine with equal arguments and makes the same calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/backend_products.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/parameter_rules.h"
#include "parallel/layout/sample_spec.h"
#include "parallel/mesh/mesh_groups.h"
#include "parallel/plan/planner.h"
#include "parallel/reduce/exchange_choice.h"
#include "parallel/run/dry_run.h"
#include "parallel/run/executor.h"
#include "parallel/run/non_finite.h"
#include "parallel/run/state_check.h"
#include "parallel/run/state_snapshot.h"
#include "parallel/run/step_graph.h"
#include "parallel/run/step_records.h"
#include "runtime/base/buffer.h"
#include "runtime/precision.h"

namespace trireme {

/// The weights of an evaluation.
enum class Weights : std::uint8_t {
  kParameters,
  kAverages,  // requires EngineOptions::ema
};

/// The plans that an engine writes.
enum class Planning : std::uint8_t {
  kAllRanks,  // all ranks' plans, validated against each other
  kOwnRank,   // only this rank's, not validated: to measure many layouts, not to train
};

/// Makes an optimizer of your own. Called again for every engine, and for predictions; the results must be
/// equal.
using OptimizerFactory = std::function<std::unique_ptr<Optimizer>()>;

struct EngineOptions {
  Device device;
  int threads = 1;                           // host threads of this rank
  std::optional<std::int64_t> memory_limit;  // bytes; more is an Error(kOutOfMemory)
  std::int64_t global_batch = 1;             // per step, over all ranks
  std::int64_t micro_batch = 1;              // per forward
  std::uint64_t seed = 0;                    // initial parameters and dropout
  OptimizerConfig optimizer;
  OptimizerFactory own_optimizer;  // in place of `optimizer`; empty: `optimizer`
  ParameterRules rules;    // frozen parameters, and factors of learning rate and weight decay, by name
  float ema = 0.0f;        // decay of averages of the parameters; 0: none. See [Note: averages]
  double ema_tau = 0.0;    // updates over which the decay grows; 0: constant
  float grad_clip = 0.0f;  // largest global gradient norm; 0: no clipping
  Reduction reduction = Reduction::kCanonical;
  Layout layout;
  HostMap hosts;  // host of every rank; empty: Communicator::hosts(). A prediction extrapolates to other rank
                  // counts with identical hosts; with an empty map, it assumes one host
  Offload offload = Offload::kNone;
  bool cuda_graph = false;                       // record a step and play it (step_graph.h)
  std::shared_ptr<const ProductTable> products;  // measured choices, the same on every rank; null: none
  std::int64_t data_cache_bytes = 0;             // on the CPU: host memory for cached data sets of a rank
  std::optional<SampleSpec> sample;              // shape of every batch; required by a pipeline
  double timeout_s = 0;  // limit for one action, after which the job ends (watchdog.h); 0: none
  Precision precision;
  LossScaleConfig loss_scale;  // off: sufficient for all modes but fp16
  bool verify_state = false;   // Engine::verifier(), see [Note: state checks]
  bool snapshots = false;      // Engine::snapshot(), see [Note: snapshots]
  Planning planning = Planning::kAllRanks;
  std::function<void(StepPlan&)> rewrite_plan;  // changes the plan of a step or evaluation before validation
  const Backend* backend = nullptr;             // replaces the device's table; instrumented in tests
};

/// The highest ZeRO stage that the optimizer allows; kNone for one that updates whole matrices.
ZeroStage largest_zero(const EngineOptions& options);

/// The exchange of an engine with these options on `num_ranks` ranks. `hosts` must name the host of each.
ExchangeChoice exchange_of(const EngineOptions& options, int num_ranks);

class Engine {
 public:
  Engine(BlockList blocks, std::shared_ptr<Communicator> comm, const EngineOptions& options);
  /// Shares blocks with other engines (a prediction, several ranks in one process): blocks hold no state.
  Engine(std::shared_ptr<const BlockList> blocks, std::shared_ptr<Communicator> comm,
         const EngineOptions& options);
  ~Engine();

  /// Runs one optimizer step with learning rate `lr`. Calls `source` for this rank's micro-batches, in order.
  /// `num_targets` counts the targets of the whole global batch; if it is 0, loss and gradients are 0, and
  /// the optimizer updates with zero gradients. Collective over all ranks. After an Error the engine must not
  /// be used for further steps.
  StepResult step(const BatchSource& source, std::int64_t num_targets, double lr);

  /// Enqueues the same step without returning its result. Nothing in it waits for the device, even if the
  /// step is skipped. At most StepRecords::kMaxPending steps may be pending.
  void enqueue_step(const BatchSource& source, std::int64_t num_targets, double lr);
  /// Waits for the oldest pending step. Throws Error(kInvalidInput) if there is none.
  StepResult collect();
  std::size_t num_pending() const { return records_->num_pending(); }
  /// Records and replays steps; null without EngineOptions::cuda_graph.
  const StepGraph* step_graph() const { return graph_.get(); }
  /// True if a step may still run when enqueue_step() returns.
  bool is_asynchronous() const { return ctx_.backend->is_asynchronous(); }

  /// Finds the gradient of a skipped step that was not finite; `source` and `num_targets` as in that step.
  /// Plays the step again. The result is exact if no later step was enqueued; otherwise it uses the current
  /// parameters. Empty if no gradient can be named any more. Collective.
  std::optional<NonFiniteGradient> find_non_finite_gradient(const StepResult& skipped,
                                                            const BatchSource& source,
                                                            std::int64_t num_targets);

  /// Mean loss over samples [0, num_samples) of `source`. Collective; the same bits for any number of ranks.
  /// `observe` is called with the logits of every micro-batch, on the rank that computes it. Throws
  /// Error(kInvalidInput) for Weights::kAverages if the engine keeps none.
  float evaluate(const BatchSource& source, std::int64_t num_samples, std::int64_t num_targets,
                 const LogitsObserver& observe = {}, Weights weights = Weights::kParameters);

  /// Logits of the whole model on one batch, on this rank only: for sampling and tests. Throws
  /// Error(kUnsupported) if the model is cut into stages. With a cache, `batch` has the tokens after the
  /// cached ones, and they are added: see [Note: decoding].
  Tensor infer(const HostBatch& batch, KeyValueCache* cache = nullptr);

  /// Hash of all parameters, their averages and optimizer state in global order. It is equal on every layout
  /// that ran the same steps.
  std::uint64_t state_hash() const;

  /// Detects flipped bits; null without EngineOptions::verify_state.
  const StateVerifier* verifier() const { return verifier_.get(); }

  /// Copies of the state, from which checkpoints are written during training; null without
  /// EngineOptions::snapshots.
  const StateSnapshot* snapshot() const { return snapshot_.get(); }
  StateSnapshot* snapshot() { return snapshot_.get(); }

  /// Calls `observer` in each step with complete gradients, before the update: (full name, gradient),
  /// multiplied by the loss scale, and by the divisor of [Note: counted losses]. Sharded gradients are
  /// gathered for it, so either all ranks observe or none. A rank observes the gradients of its stage.
  void observe_gradients(OptimizerStep::GradientObserver observer) {
    optimizer_step_->observe_gradients(std::move(observer));
  }

  /// Calls `observer` in every later step with the loss of each micro-batch of this rank, after its forward:
  /// the part of the micro-batch in the step's loss. Makes the host wait for the device. Throws
  /// Error(kUnsupported) if steps are recorded (EngineOptions::cuda_graph).
  void observe_losses(LossObserver observer);

  /// Replaces the learning rate of the step in progress. Call from the function of leave_out_steps().
  void set_learning_rate(double lr) { optimizer_step_->set_learning_rate(lr); }

  /// Calls `decide` in every later step before the update, with the step's loss and gradient norm. If it
  /// returns true the update is skipped, as with a gradient that is not finite: parameters, averages,
  /// statistics, optimizer state and the count of updates stay. The loss scale stays as well. Both numbers
  /// are the same on every rank and layout, and the return value must be too. Makes the host wait for the
  /// device in each step. Empty: no step is left out. Throws Error(kUnsupported) if steps are recorded
  /// (EngineOptions::cuda_graph).
  void leave_out_steps(std::function<bool(float loss, float grad_norm)> decide);

  std::int64_t steps_done() const { return steps_done_; }
  /// For restored state. Unless set_loss_scale_state() follows, all of these steps count as updates.
  void set_steps_done(std::int64_t steps);
  /// State besides the parameters: scale, counts of clean and skipped steps, updates. Waits for the device.
  LossScaleState loss_scale_state() const { return scaler_->read(ctx_); }
  /// For restored state, after set_steps_done().
  void set_loss_scale_state(const LossScaleState& state) { scaler_->write(ctx_, state); }

  /// See Executor::observe_actions.
  void observe_actions(Executor::ActionObserver observer) { executor_->observe_actions(std::move(observer)); }

  const Context& context() const { return ctx_; }
  const BlockList& blocks() const { return *blocks_; }
  const ModelLayout& layout() const { return layout_; }
  const ParamStore& parameters() const { return *params_; }
  ParamStore& parameters() { return *params_; }
  const StepPlan& plan() const { return plan_; }
  /// The assignment of a step's samples to ranks.
  const BatchLayout& batch() const { return batch_; }
  /// The memory of EngineOptions::data_cache_bytes; undefined on devices with separate memory, and on stages
  /// that read no samples.
  const Buffer& data_cache() const { return data_cache_; }
  const StatisticStore& statistics() const { return *statistics_; }
  /// All ranks.
  Communicator& communicator() const { return *groups_.world; }
  const MeshGroups& groups() const { return groups_; }
  /// The number of levels of exchanges over the data axis, and the reason.
  const ExchangeChoice& exchange() const { return exchange_; }
  /// The host of every rank.
  const HostMap& hosts() const { return options_.hosts; }
  /// The stage of every block.
  const StageMap& stages() const { return stages_; }
  /// Watches that the ranks of this machine are alive and make progress, in steps and inside a
  /// Watchdog::Scope of a caller. Null for a single rank without EngineOptions::timeout_s.
  Watchdog* watchdog() const { return watchdog_.get(); }
  /// Brings all working copies up to date after a caller wrote masters. Collective.
  void refresh_parameters();

 private:
  Buffer reserve_data_cache() const;
  StepPlan make_plan() const;
  /// Null if nothing can wait: see [Note: dry runs].
  std::unique_ptr<DryRun> make_dry_run();
  PlanOptions plan_options() const;
  std::unique_ptr<StepGraph> make_graph() const;
  Tensor run_step(ExecutionInput& input, MemoryStats& memory);
  /// `step` counts from 0.
  ExecutionInput step_input(const BatchSource& source, std::int64_t num_targets, std::int64_t step) const;
  void refuse_recorded(const char* what) const;
  /// `source`, with the time spent waiting for it measured. `source` outlives the result.
  BatchSource timed(const BatchSource& source) const;
  const RankPlan& own_plan(const StepPlan& plan) const {
    return plan.ranks[static_cast<std::size_t>(groups_.world->rank())];
  }
  std::vector<float> in_global_order(const std::vector<float>& losses, const BatchLayout& batch) const;

  const std::shared_ptr<const BlockList> blocks_;
  const EngineOptions options_;
  const ExchangeChoice exchange_;
  const MeshGroups groups_;
  const BatchLayout batch_;
  const StageMap stages_;
  const std::unique_ptr<Optimizer> optimizer_;
  const ModelLayout layout_;
  const StepPlan plan_;
  Context ctx_;
  Buffer data_cache_;
  const std::unique_ptr<Watchdog> watchdog_;  // null: no watchdog
  std::unique_ptr<TensorExchange> tensor_;    // null: one tensor rank
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<StatisticStore> statistics_;
  std::unique_ptr<GradAccumulator> gradients_;
  std::unique_ptr<BoundaryShapes> shapes_;  // null: one stage
  std::unique_ptr<DryRun> dry_run_;         // null: no dry run needed
  std::optional<RankParts> parts_;
  std::unique_ptr<TiedParameters> tied_;
  std::unique_ptr<PhaseClock> clock_;  // null: steps are recorded
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<LossScaler> scaler_;
  std::unique_ptr<StepRecords> records_;
  std::unique_ptr<StateVerifier> verifier_;
  std::unique_ptr<StateSnapshot> snapshot_;
  std::unique_ptr<OptimizerStep> optimizer_step_;
  std::unique_ptr<StepGraph> graph_;  // null: every step is enqueued
  LossObserver observe_loss_;         // may be null
  std::int64_t enqueued_bytes_ = 0;   // bytes sent by the last enqueued step; a replayed one sends the same
  std::int64_t steps_done_ = 0;
};

}  // namespace trireme
