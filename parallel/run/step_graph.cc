#include "parallel/run/step_graph.h"

#include <algorithm>

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

void put(const Context& ctx, Tensor& tensor, const void* data, const Shape& shape, DType dtype) {
  if (!tensor.defined()) tensor = ctx.empty(shape, dtype, MemoryCategory::kBatch);
  TRIREME_CHECK(
      tensor.shape() == shape && tensor.dtype() == dtype,
      "EngineOptions::cuda_graph: a step's micro-batch is {} of {}, that of steps before was {} of {}",
      shape.to_string(), name(dtype), tensor.shape().to_string(), name(tensor.dtype()));
  ctx.backend->copy_from_host(ctx.exec, tensor, data);
}

}  // namespace

void StepGraph::upload(ExecutionInput& input, int rank) {
  const BatchLayout& layout = input.batch;
  batches_.resize(static_cast<std::size_t>(layout.per_rank()));
  for (std::int64_t m = 0; m < layout.per_rank(); ++m) {
    Batch& batch = batches_[static_cast<std::size_t>(m)];
    const std::int64_t first = layout.first_sample(layout.global_micro_batch(rank, m));
    const HostBatch host = input.source(first, std::min(layout.micro_batch, layout.global_batch - first));
    put(ctx_, batch.inputs, host.inputs.data(), host.input_shape, host.input_dtype);
    put(ctx_, batch.targets, host.targets.data(), host.target_shape, DType::kInt32);
    if (host.target_weights.empty()) continue;
    put(ctx_, batch.target_weights, host.target_weights.data(), host.target_shape, DType::kFloat32);
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
