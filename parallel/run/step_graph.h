// A training step as one recorded graph: the host enqueues one launch instead of every kernel.
//
// [Note: captured steps] What is recorded is exactly what the executor enqueues, so a replayed step has the
// bits of an enqueued one. That wants four things of it:
//  * Nothing of a step's own in the arguments of kernels: the rate, the count of updates and the loss scale
//    live on the device, and so does the step's number, of which random numbers are made
//    (RngKey::device_step).
//  * Fixed addresses. Batches are uploaded before the step into buffers that stay; what the step allocates
//    comes from a pool of its own (MemorySource::use_fixed_pool), from which nothing else is allocated;
//    parameters and optimizer state never move.
//  * Nothing that waits. The first step is enqueued, so that libraries make their handles and choose their
//    algorithms; the second fills the pool; the third is recorded, and replayed from then on.
//  * A communicator that can be recorded: NCCL's operations become nodes of the graph, with their own streams
//  as
//    branches of it, in the order in which they are enqueued. All ranks record and replay the same steps.
//    Nothing is under way when a recorded step begins or ends: gathered parameters are waited for. A replay
//    is watched as one operation; which exchange it waits in is not known.
//
// A change of what is in kernel arguments (the count of targets) or of shapes starts over. Memory that a
// replayed step "needs" is that of the recorded one. On backends that record nothing, every step is enqueued;
// batches are uploaded in the same way there, so that predicted and measured memory agree.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/layout/stage_map.h"
#include "parallel/plan/plan.h"
#include "parallel/run/execution_input.h"
#include "runtime/context.h"

namespace trireme {

class StepGraph {
 public:
  /// The graph of steps that are enqueued with `ctx`, and exchange through groups of `world`. Throws
  /// Error(kUnsupported) where the device records and the communicator of several ranks does not.
  StepGraph(const Context& ctx, std::shared_ptr<Communicator> world);

  /// Uploads what a step's own is: the micro-batches that `plan` reads, in its order, and the step's number.
  /// Makes `input` point to them.
  void upload(const RankPlan& plan, const StageMap& stages, int data_rank, ExecutionInput& input);

  /// Runs a step: `enqueue` enqueues it and returns its losses; it is not called for a replayed step.
  Tensor run(const ExecutionInput& input, const std::function<Tensor()>& enqueue);

  /// Of the last step: measured, or that of the recorded step when it was replayed.
  const MemoryStats& memory() const { return memory_; }
  /// True when the last step was replayed.
  bool replayed() const { return replayed_; }
  /// Starts over with the next step. To be called after a step that was enqueued beside this graph.
  void reset();

 private:
  enum class Stage { kFirst, kPool, kRecord, kReplay };

  bool can_record() const { return ctx_.backend->records_graphs(); }
  Tensor record(const std::function<Tensor()>& enqueue);

  const Context ctx_;
  const std::shared_ptr<Communicator> world_;
  std::vector<Batch> batches_;  // by local micro-batch
  Tensor step_;                 // [] int32: the step's number
  Stage stage_ = Stage::kFirst;
  std::int64_t num_targets_ = 0;
  std::shared_ptr<void> graph_;
  Tensor losses_;  // of the graph
  MemoryStats memory_, recorded_memory_;
  bool replayed_ = false;
};

}  // namespace trireme
