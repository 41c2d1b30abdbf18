// A training step as one recorded graph: the host enqueues one launch instead of every kernel.
//
// [Note: captured steps] The recording contains exactly what the executor enqueues, so a replayed step has
// the bits of an enqueued one. This has four requirements:
//  * No arguments of kernels change from step to step. Learning rate, count of updates and loss scale are
//    on the device, and so is the step's number, which keys random numbers (RngKey::device_step).
//  * Addresses are fixed. Batches are uploaded before the step into persistent buffers. The step allocates
//    from its own pool (MemorySource::use_fixed_pool), which serves nothing else. Parameters and optimizer
//    state never move.
//  * Nothing waits. The first step is enqueued, so that libraries create handles and choose algorithms. The
//    second fills the pool. The third is recorded, and replayed from then on.
//  * The communicator can be recorded. NCCL's operations become nodes of the graph, with their streams as
//    branches, in the order in which they are enqueued. All ranks record and replay the same steps. Nothing
//    is in flight when a recorded step begins or ends: gathered parameters are waited for. The watchdog
//    watches a replay as one operation, without the name of the exchange that it waits in.
//
// A change of kernel arguments (the count of targets) or of shapes starts over. A replayed step reports the
// memory of the recorded one. Backends without graphs enqueue every step, but upload batches in the same way,
// so that predicted and measured memory agree.
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
  /// The graph of steps that are enqueued with `ctx` and communicate through groups of `world`. Throws
  /// Error(kUnsupported) if the device records graphs but the communicator of several ranks does not.
  StepGraph(const Context& ctx, std::shared_ptr<Communicator> world);

  /// Uploads the inputs that change with each step: the micro-batches that `plan` reads, in its order, and
  /// the step's number. Makes `input` point to them.
  void upload(const RankPlan& plan, const StageMap& stages, int data_rank, ExecutionInput& input);

  /// Runs a step. `enqueue` enqueues it and returns its losses; it is not called for a replayed step.
  Tensor run(const ExecutionInput& input, const std::function<Tensor()>& enqueue);

  /// Memory of the last step; for a replayed step, of the recorded one.
  const MemoryStats& memory() const { return memory_; }
  /// True when the last step was replayed.
  bool replayed() const { return replayed_; }
  /// Starts over with the next step. Call it after a step that was enqueued without this graph.
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
