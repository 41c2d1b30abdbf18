// The engine as a library: blocks in, training steps out.
//
//   Engine engine(std::move(blocks), std::make_shared<SingleRank>(), {.global_batch = 32, .micro_batch = 8});
//   StepResult result = engine.step(source, targets_per_step, 1e-3);
//
// The constructor lays the parameters out, plans the step and validates the plan of all ranks; step() plays
// it. Every rank of the communicator constructs an Engine with equal arguments and makes the same calls.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parallel/executor.h"
#include "parallel/mesh.h"
#include "parallel/planner.h"

namespace trireme {

struct EngineOptions {
  Device device;
  int threads = 1;                           // host threads of this rank
  std::optional<std::int64_t> memory_limit;  // bytes; more is an Error(kOutOfMemory)
  std::int64_t global_batch = 1;             // samples a step, over all ranks
  std::int64_t micro_batch = 1;              // samples a forward
  std::uint64_t seed = 0;                    // initial parameters and dropout
  OptimizerConfig optimizer;
  float grad_clip = 0.0f;  // largest global gradient norm; 0: no clipping
  Reduction reduction = Reduction::kCanonical;
  ZeroStage zero = ZeroStage::kNone;
  bool accumulate_unsharded = false;  // ZeRO-2 and 3: reduce gradients once a step, from whole buffers
  int recompute_every = 0;  // keep only the input of every segment of so many blocks; 0: keep everything
  int prefetch_depth = 1;   // ZeRO-3: gather this many runs of blocks ahead
};

struct StepResult {
  std::int64_t step = 0;        // steps done, this one included
  float loss = 0;               // mean over the targets of the global batch
  float grad_norm = 0;          // before clipping
  MemoryStats memory;           // peaks of this step on this rank
  std::int64_t sent_bytes = 0;  // by this rank in this step
};

class Engine {
 public:
  Engine(BlockList blocks, std::shared_ptr<Communicator> comm, const EngineOptions& options);
  /// Shares blocks with others (a prediction, several ranks in one process): blocks hold no state.
  Engine(std::shared_ptr<const BlockList> blocks, std::shared_ptr<Communicator> comm,
         const EngineOptions& options);
  ~Engine();

  /// One optimizer step with learning rate `lr`. `source` is asked for this rank's micro-batches, in order;
  /// `num_targets` counts the targets of the whole global batch. Collective over all ranks. After an Error
  /// the engine must not be used for further steps.
  StepResult step(const BatchSource& source, std::int64_t num_targets, double lr);

  /// Mean loss over samples [0, num_samples) of `source`. Collective; the same bits for any number of ranks.
  float evaluate(const BatchSource& source, std::int64_t num_samples, std::int64_t num_targets);

  /// Logits of the whole model on one batch, on this rank alone: for sampling and tests.
  Tensor infer(const HostBatch& batch);

  /// Hash of all parameters and optimizer state in global order: equal on every layout that did the same
  /// steps.
  std::uint64_t state_hash() const;

  /// Called in each step with complete gradients, before the update: (full name, gradient). Where gradients
  /// are sharded they are gathered for it, so all ranks observe or none.
  using GradientObserver = std::function<void(const std::string& name, const Tensor& gradient)>;
  void observe_gradients(GradientObserver observer) { observer_ = std::move(observer); }

  std::int64_t steps_done() const { return steps_done_; }
  /// For restored state.
  void set_steps_done(std::int64_t steps) { steps_done_ = steps; }

  const Context& context() const { return ctx_; }
  const BlockList& blocks() const { return *blocks_; }
  const ModelLayout& layout() const { return layout_; }
  const ParamStore& parameters() const { return *params_; }
  ParamStore& parameters() { return *params_; }
  const StepPlan& plan() const { return plan_; }
  /// Who computes which samples of a step.
  const BatchLayout& batch() const { return batch_; }
  Communicator& communicator() const { return *comm_; }

 private:
  PlanOptions plan_options() const;
  void make_training_state();
  void observe(const GradAccumulator& gradients) const;
  std::vector<float> in_global_order(const std::vector<float>& losses, const BatchLayout& batch) const;

  const std::shared_ptr<const BlockList> blocks_;
  const std::shared_ptr<Communicator> comm_;
  const EngineOptions options_;
  const Mesh mesh_;
  const BatchLayout batch_;
  const ModelLayout layout_;
  const StepPlan plan_;
  Context ctx_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<GradAccumulator> gradients_;
  std::unique_ptr<Executor> executor_;
  Executor::TrainingState training_;
  GradientObserver observer_;
  std::int64_t steps_done_ = 0;
};

}  // namespace trireme
