#include "parallel/run/execution_input.h"

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
  put(ctx, batch.inputs, host.inputs.data(), host.input_shape, host.input_dtype);
  put(ctx, batch.targets, host.targets.data(), host.target_shape, DType::kInt32);
  if (!host.target_weights.empty()) {
    put(ctx, batch.target_weights, host.target_weights.data(), host.target_shape, DType::kFloat32);
  }
  if (host.documents.empty()) return;
  const Shape& rows = host.input_shape;
  const DocumentRows& documents = host.documents;
  put(ctx, batch.key_bounds, documents.key_bounds.data(), {rows.dim(0), rows.dim(1), 2}, DType::kInt32);
  put(ctx, batch.positions, documents.positions.data(), rows, DType::kInt32);
  put(ctx, batch.types, documents.types.data(), rows, DType::kInt32);
}

}  // namespace trireme
