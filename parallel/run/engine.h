// The engine as a library: blocks in, training steps out.
//
//   Engine engine(std::move(blocks), LocalWorld(1).communicator(0), {.global_batch = 32, .micro_batch = 8});
//   StepResult result = engine.step(source, targets_per_step, 1e-3);
//
// step() is enqueue_step(), which never waits for the device, and collect(), which does.
// The constructor lays the parameters out, plans the step and validates the plan of all ranks; step() plays
// it. Every rank of the communicator constructs an Engine with equal arguments and makes the same calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/backend_products.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/parameter_rules.h"
#include "parallel/layout/sample_spec.h"
#include "parallel/layout/staging.h"
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

/// What an evaluation computes with.
enum class Weights : std::uint8_t {
  kParameters,
  kAverages,  // of an engine with EngineOptions::ema
};

/// Whose plans an engine writes.
enum class Planning : std::uint8_t {
  kAllRanks,  // and validates them against each other
  kOwnRank,   // none is validated: to count what many layouts would need, not to train
};

struct EngineOptions {
  Device device;
  int threads = 1;                           // host threads of this rank
  std::optional<std::int64_t> memory_limit;  // bytes; more is an Error(kOutOfMemory)
  std::int64_t global_batch = 1;             // samples a step, over all ranks
  std::int64_t micro_batch = 1;              // samples a forward
  std::uint64_t seed = 0;                    // initial parameters and dropout
  OptimizerConfig optimizer;
  ParameterRules rules;    // what is frozen, and factors of learning rate and weight decay by name
  float ema = 0.0f;        // decay of averages of the parameters; 0: none. See [Note: averages]
  float grad_clip = 0.0f;  // largest global gradient norm; 0: no clipping
  Reduction reduction = Reduction::kCanonical;
  Layout layout;
  HostMap hosts;  // of every rank; empty: Communicator::hosts(). A prediction, which has nobody to ask, takes
                  // more or less ranks than these as hosts like these, and an empty map as one host
  Offload offload = Offload::kNone;
  bool cuda_graph = false;                       // record a step and play it (step_graph.h)
  std::shared_ptr<const ProductTable> products;  // measured choices, the same on every rank; null: none
  std::int64_t data_cache_bytes = 0;  // on the CPU: host memory for what the data sets of a rank keep
  std::optional<SampleSpec> sample;   // what every batch consists of; a pipeline needs to know
  double timeout_s = 0;               // an action that takes longer ends the job (watchdog.h); 0: never
  Precision precision;
  LossScaleConfig loss_scale;  // off: right for all modes but fp16
  bool verify_state = false;   // Engine::verifier(), see [Note: state checks]
  bool snapshots = false;      // Engine::snapshot(), see [Note: snapshots]
  Planning planning = Planning::kAllRanks;
  std::function<void(StepPlan&)>
      rewrite_plan;  // changes what the planner wrote, before it is validated: a step, an evaluation
  const Backend* backend = nullptr;  // in place of the device's own table: instrumented in tests
};

/// What the optimizer allows to shard at most: one that updates whole matrices, nothing.
ZeroStage largest_zero(const EngineOptions& options);

/// Of an engine with these options, whose `hosts` are all there, and so many ranks.
ExchangeChoice exchange_of(const EngineOptions& options, int num_ranks);

class Engine {
 public:
  Engine(BlockList blocks, std::shared_ptr<Communicator> comm, const EngineOptions& options);
  /// Shares blocks with others (a prediction, several ranks in one process): blocks hold no state.
  Engine(std::shared_ptr<const BlockList> blocks, std::shared_ptr<Communicator> comm,
         const EngineOptions& options);
  ~Engine();

  /// One optimizer step with learning rate `lr`. `source` is asked for this rank's micro-batches, in order;
  /// `num_targets` counts the targets of the whole global batch; without any, loss and gradients are 0, and
  /// the update is that of zero gradients. Collective over all ranks. After an Error the engine must not be
  /// used for further steps.
  StepResult step(const BatchSource& source, std::int64_t num_targets, double lr);

  /// The same step without its result: nothing in it waits for the device, whatever becomes of the step. At
  /// most StepRecords::kMaxPending steps may wait to be collected.
  void enqueue_step(const BatchSource& source, std::int64_t num_targets, double lr);
  /// Waits for the oldest step that was not collected. Throws Error(kInvalidInput) when there is none.
  StepResult collect();
  std::size_t num_pending() const { return records_->num_pending(); }
  /// What records steps and plays them; null without EngineOptions::cuda_graph.
  const StepGraph* step_graph() const { return graph_.get(); }
  /// True where a step may be under way when enqueue_step() returns; false where it is done by then.
  bool is_asynchronous() const { return ctx_.backend->is_asynchronous(); }

  /// Which gradient of a skipped step was not finite; `source` and `num_targets` as in that step. Plays the
  /// step again: exact while no later step was enqueued, else with the parameters as they are now. Empty when
  /// none can be named any more. Collective.
  std::optional<NonFiniteGradient> find_non_finite_gradient(const StepResult& skipped,
                                                            const BatchSource& source,
                                                            std::int64_t num_targets);

  /// Mean loss over samples [0, num_samples) of `source`. Collective; the same bits for any number of ranks.
  /// `observe` sees the logits of every micro-batch, on the rank that computes it. Throws
  /// Error(kInvalidInput) for averages that the engine does not keep.
  float evaluate(const BatchSource& source, std::int64_t num_samples, std::int64_t num_targets,
                 const LogitsObserver& observe = {}, Weights weights = Weights::kParameters);

  /// Logits of the whole model on one batch, on this rank alone: for sampling and tests. Throws
  /// Error(kUnsupported) where the model is cut into stages. With a cache, `batch` has the tokens after those
  /// that it holds, and adds them: see [Note: decoding].
  Tensor infer(const HostBatch& batch, KeyValueCache* cache = nullptr);

  /// Hash of all parameters, their averages and optimizer state in global order: equal on every layout that
  /// did the same steps.
  std::uint64_t state_hash() const;

  /// What looks for bits that flipped; null without EngineOptions::verify_state.
  const StateVerifier* verifier() const { return verifier_.get(); }

  /// Copies of the state for checkpoints that are written while training goes on; null without
  /// EngineOptions::snapshots.
  const StateSnapshot* snapshot() const { return snapshot_.get(); }
  StateSnapshot* snapshot() { return snapshot_.get(); }

  /// Called in each step with complete gradients, before the update: (full name, gradient), multiplied by the
  /// loss scale. Where gradients are sharded they are gathered for it, so all ranks observe or none. A rank
  /// sees those of its stage.
  void observe_gradients(OptimizerStep::GradientObserver observer) {
    optimizer_step_->observe_gradients(std::move(observer));
  }

  /// From now on `decide` is asked in each step before its update, with the step's loss and gradient norm.
  /// True: no update, as where a gradient is not finite: parameters, averages, statistics, optimizer state
  /// and the count of updates stay; the loss scale stays as well. Both numbers are the same on every rank and
  /// layout, and so has to be the answer. The host waits for the device then. Throws Error(kUnsupported)
  /// where steps are recorded (EngineOptions::cuda_graph).
  void leave_out_steps(std::function<bool(float loss, float grad_norm)> decide);

  std::int64_t steps_done() const { return steps_done_; }
  /// For restored state. Without its loss_scale_state(): all of these steps count as updates.
  void set_steps_done(std::int64_t steps);
  /// What goes on beside the parameters: scale, counts of clean and skipped steps, updates. Waits.
  LossScaleState loss_scale_state() const { return scaler_->read(ctx_); }
  /// For restored state, after set_steps_done().
  void set_loss_scale_state(const LossScaleState& state) { scaler_->write(ctx_, state); }

  /// See Executor::observe_actions.
  void observe_actions(Executor::ActionObserver observer) { executor_->observe_actions(std::move(observer)); }

  /// Elements of a staging buffer on this rank, now and at most `most`: [Note: staging].
  std::int64_t staging_elems(std::int64_t most) const {
    return trireme::staging_elems(*ctx_.allocator, options_.memory_limit, most);
  }

  const Context& context() const { return ctx_; }
  const BlockList& blocks() const { return *blocks_; }
  const ModelLayout& layout() const { return layout_; }
  const ParamStore& parameters() const { return *params_; }
  ParamStore& parameters() { return *params_; }
  const StepPlan& plan() const { return plan_; }
  /// Who computes which samples of a step.
  const BatchLayout& batch() const { return batch_; }
  /// The memory of EngineOptions::data_cache_bytes; undefined on devices with memory of their own, and on
  /// stages that read no samples.
  const Buffer& data_cache() const { return data_cache_; }
  const StatisticStore& statistics() const { return *statistics_; }
  /// Of all ranks.
  Communicator& communicator() const { return *groups_.world; }
  const MeshGroups& groups() const { return groups_; }
  /// Whether exchanges over the data axis have one level or two, and why.
  const ExchangeChoice& exchange() const { return exchange_; }
  /// Of every rank.
  const HostMap& hosts() const { return options_.hosts; }
  /// Which blocks run on which stage.
  const StageMap& stages() const { return stages_; }
  /// What watches that the ranks of this machine are there, and get on in steps and in what callers put into
  /// a Watchdog::Scope; null for a single rank without EngineOptions::timeout_s.
  Watchdog* watchdog() const { return watchdog_.get(); }
  /// After masters were written from outside: brings all working copies up to date. Collective.
  void refresh_parameters();

 private:
  Buffer reserve_data_cache() const;
  StepPlan make_plan() const;
  /// Null where nothing can wait: see [Note: dry runs].
  std::unique_ptr<DryRun> make_dry_run();
  PlanOptions plan_options() const;
  std::unique_ptr<StepGraph> make_graph() const;
  Tensor run_step(ExecutionInput& input, MemoryStats& memory);
  /// `step` counts from 0.
  ExecutionInput step_input(const BatchSource& source, std::int64_t num_targets, std::int64_t step) const;
  /// The same batches; what they are waited for is timed. `source` outlives it.
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
  const ModelLayout layout_;
  const StepPlan plan_;
  Context ctx_;
  Buffer data_cache_;
  const std::unique_ptr<Optimizer> optimizer_;
  const std::unique_ptr<Watchdog> watchdog_;  // null: nobody watches
  std::unique_ptr<TensorExchange> tensor_;    // null: one tensor rank
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<StatisticStore> statistics_;
  std::unique_ptr<GradAccumulator> gradients_;
  std::unique_ptr<BoundaryShapes> shapes_;  // null: one stage
  std::unique_ptr<DryRun> dry_run_;         // null: nothing runs before it has to
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
  std::int64_t enqueued_bytes_ = 0;   // sent by the last step that was; a replayed one sends as many
  std::int64_t steps_done_ = 0;
};

}  // namespace trireme
