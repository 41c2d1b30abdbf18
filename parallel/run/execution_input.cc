#include "parallel/run/execution_input.h"

#include "parallel/layout/sample_batch.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

void put(const Context& ctx, Tensor& tensor, const void* data, const Shape& shape, DType dtype) {
  if (!tensor.defined()) tensor = ctx.empty(shape, dtype, MemoryCategory::kBatch);
  TRIREME_CHECK(
      tensor.shape() == shape && tensor.dtype() == dtype,
      "EngineOptions::cuda_graph: a step's micro-batch is {} of {}, that of steps before was {} of {}",
      shape.to_string(), name(dtype), tensor.shape().to_string(), name(tensor.dtype()));
  ctx.backend->copy_from_host(ctx.exec, tensor, data);
}

}  // namespace

bool reads_batch(const Action& action, const StageMap& stages) {
  if (action.kind != ActionKind::kForward) return false;
  return action.unit == 0 || (stages.pipeline > 1 && action.unit + 1 == stages.num_units());
}

void upload_batch(const Context& ctx, const ExecutionInput& input, int data_rank, std::int64_t micro_batch,
                  Batch& batch) {
  const auto [first, count] = input.batch.samples_of(data_rank, micro_batch);
  const HostBatch host = input.source(first, count);
  const auto upload = [&](Tensor& tensor, const void* data, const Shape& shape, DType dtype) {
    put(ctx, tensor, data, shape, dtype);
  };
  put_inputs(host, batch, upload);
  put_targets(host, batch, upload);
}

}  // namespace trireme
