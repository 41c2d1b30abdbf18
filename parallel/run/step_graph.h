// A training step as one recorded graph: the host enqueues one launch instead of every kernel.
//
// [Note: captured steps] What is recorded is exactly what the executor enqueues, so a replayed step has the
// bits of an enqueued one. That wants four things of it:
//  * Nothing of a step's own in the arguments of kernels: the rate, the count of updates and the loss scale
//    live on the device. Random numbers do not (their key has the step's number), so steps that draw them are
//    refused.
//  * Fixed addresses. Batches are uploaded before the step into buffers that stay; what the step allocates
//    comes from a pool of its own (MemorySource::use_fixed_pool), from which nothing else is allocated;
//    parameters and optimizer state never move.
//  * Nothing that waits. The first step is enqueued, so that libraries make their handles and choose their
//    algorithms; the second fills the pool; the third is recorded, and replayed from then on.
//  * One rank: NCCL's operations are ordered by events and watched by a thread, which graphs do not know.
//
// A change of what is in kernel arguments (the count of targets) or of shapes starts over. Memory that a
// replayed step "needs" is that of the recorded one. On backends that record nothing, every step is enqueued;
// batches are uploaded in the same way there, so that predicted and measured memory agree.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/run/execution_input.h"
#include "runtime/context.h"

namespace trireme {

class StepGraph {
 public:
  /// The graph of steps that are enqueued with `ctx`.
  explicit StepGraph(const Context& ctx) : ctx_(ctx) {}

  /// Uploads this rank's micro-batches of `input`, and makes input.uploaded point to them.
  void upload(ExecutionInput& input, int data_rank);

  /// Runs a step: `enqueue` enqueues it and returns its losses; it is not called for a replayed step. Throws
  /// Error(kUnsupported) when `draws_random` answers true after the first step.
  Tensor run(const ExecutionInput& input, const std::function<Tensor()>& enqueue,
             const std::function<bool()>& draws_random);

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
  std::vector<Batch> batches_;  // by local micro-batch
  Stage stage_ = Stage::kFirst;
  std::int64_t num_targets_ = 0;
  std::shared_ptr<void> graph_;
  Tensor losses_;  // of the graph
  MemoryStats memory_, recorded_memory_;
  bool replayed_ = false;
};

}  // namespace trireme
