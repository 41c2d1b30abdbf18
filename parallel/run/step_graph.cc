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

/// Records the operations of the communicator during its lifetime.
class RecordedExchanges {
 public:
  explicit RecordedExchanges(Communicator& world) : world_(world) { world_.set_recording(true); }
  ~RecordedExchanges() { world_.set_recording(false); }
  RecordedExchanges(const RecordedExchanges&) = delete;
  RecordedExchanges& operator=(const RecordedExchanges&) = delete;

 private:
  Communicator& world_;
};

}  // namespace

StepGraph::StepGraph(const Context& ctx, std::shared_ptr<Communicator> world)
    : ctx_(ctx), world_(std::move(world)) {
  if (world_->size() == 1 || !can_record() || world_->records_graphs()) return;
  throw Error(
      ErrorCode::kUnsupported,
      "EngineOptions::cuda_graph = true: the operations of the communicator \"{}\" of {} ranks are not "
      "recorded; set it to false",
      world_->kind(), world_->size());
}

void StepGraph::upload(const RankPlan& plan, const StageMap& stages, int data_rank, ExecutionInput& input) {
  batches_.resize(static_cast<std::size_t>(input.batch.per_rank()));
  for (const Action& action : plan.actions) {
    if (!reads_batch(action, stages)) continue;
    const auto m = static_cast<std::size_t>(action.micro_batch);
    upload_batch(ctx_, input, data_rank, action.micro_batch, batches_[m]);
  }
  input.uploaded = &batches_;
  if (!step_.defined()) step_ = ctx_.empty({}, DType::kInt32, MemoryCategory::kBatch);
  if (!can_record()) return;
  ctx_.backend->copy_from_host(ctx_.exec, step_, &input.rng.step);
  input.rng.device_step = static_cast<const std::uint32_t*>(step_.address());
}

void StepGraph::reset() {
  stage_ = Stage::kFirst;
  graph_.reset();
  losses_ = Tensor();
}

Tensor StepGraph::run(const ExecutionInput& input, const std::function<Tensor()>& enqueue) {
  if (input.num_targets != num_targets_) reset();
  num_targets_ = input.num_targets;
  if (stage_ == Stage::kRecord) {
    losses_ = record(enqueue);
    stage_ = Stage::kReplay;
  }
  replayed_ = stage_ == Stage::kReplay;
  if (replayed_) {
    ctx_.backend->launch_graph(ctx_.exec, graph_);
    world_->watch_stream("a recorded step");
    memory_ = recorded_memory_;
    return losses_;
  }
  Tensor losses;
  if (stage_ == Stage::kFirst) {
    losses = enqueue();
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
  const RecordedExchanges exchanges(*world_);
  ctx_.backend->begin_capture(ctx_.exec);
  Tensor losses;
  try {
    losses = enqueue();
  } catch (...) {
    // The stream must leave its recording state. The first error is the relevant one.
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
