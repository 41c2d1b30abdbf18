#include "parallel/run/step_graph.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

class FixedPool {
 public:
  explicit FixedPool(Allocator& allocator) : allocator_(allocator) { allocator_.use_fixed_pool(true); }
  ~FixedPool() { allocator_.use_fixed_pool(false); }
  FixedPool(const FixedPool&) = delete;
  FixedPool& operator=(const FixedPool&) = delete;

 private:
  Allocator& allocator_;
};

}  // namespace

void StepGraph::upload(ExecutionInput& input, int data_rank) {
  batches_.resize(static_cast<std::size_t>(input.batch.per_rank()));
  for (std::size_t m = 0; m < batches_.size(); ++m) {
    upload_batch(ctx_, input, data_rank, static_cast<std::int64_t>(m), batches_[m]);
  }
  input.uploaded = &batches_;
}

void StepGraph::reset() {
  stage_ = Stage::kFirst;
  graph_.reset();
  losses_ = Tensor();
}

Tensor StepGraph::run(const ExecutionInput& input, const std::function<Tensor()>& enqueue,
                      const std::function<bool()>& draws_random) {
  if (input.num_targets != num_targets_) reset();
  num_targets_ = input.num_targets;
  if (stage_ == Stage::kRecord) {
    losses_ = record(enqueue);
    stage_ = Stage::kReplay;
  }
  replayed_ = stage_ == Stage::kReplay;
  if (replayed_) {
    ctx_.backend->launch_graph(ctx_.exec, graph_);
    memory_ = recorded_memory_;
    return losses_;
  }
  Tensor losses;
  if (stage_ == Stage::kFirst) {
    losses = enqueue();
    if (draws_random()) {
      throw Error(
          ErrorCode::kUnsupported,
          "EngineOptions::cuda_graph = true cannot replay steps that draw random numbers: take a model "
          "without dropout, or set EngineOptions::cuda_graph = false");
    }
    if (can_record()) stage_ = Stage::kPool;
  } else {
    const FixedPool pool(*ctx_.allocator);
    losses = enqueue();
    stage_ = Stage::kRecord;
  }
  memory_ = ctx_.allocator->stats();
  return losses;
}

// Only records; nothing runs.
Tensor StepGraph::record(const std::function<Tensor()>& enqueue) {
  const FixedPool pool(*ctx_.allocator);
  ctx_.backend->begin_capture(ctx_.exec);
  Tensor losses;
  try {
    losses = enqueue();
  } catch (...) {
    // The stream must leave its recording state; the first error is the one that counts.
    try {
      (void)ctx_.backend->end_capture(ctx_.exec);
    } catch (const Error&) {
    }
    throw;
  }
  graph_ = ctx_.backend->end_capture(ctx_.exec);
  recorded_memory_ = ctx_.allocator->stats();
  return losses;
}

}  // namespace trireme
