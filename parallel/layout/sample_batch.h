// The tensors of a micro-batch of a job's samples, from their shapes or from host memory.
#pragma once

#include "parallel/layout/sample_spec.h"
#include "runtime/block.h"
#include "runtime/data/dataset.h"

namespace trireme {

/// make(shape, dtype) creates every tensor.
template <class Make>
Batch make_batch(const SampleSpec& sample, std::int64_t num_samples, const Make& make) {
  const Shape input = sample.input.batched(num_samples), target = sample.target.batched(num_samples);
  Batch batch;
  batch.inputs = make(input, sample.input_dtype);
  if (sample.documents) {
    batch.key_bounds = make(Shape{num_samples, input.dim(1), 2}, DType::kInt32);
    batch.positions = make(input, DType::kInt32);
    batch.types = make(input, DType::kInt32);
  }
  if (sample.timesteps) batch.timesteps = make(Shape{num_samples}, DType::kFloat32);
  if (sample.condition.rank() > 0) {
    batch.condition = make(sample.condition.batched(num_samples), DType::kFloat32);
  }
  if (sample.classes) batch.classes = make(Shape{num_samples}, DType::kInt32);
  batch.targets = make(target, sample.target_dtype);
  if (sample.target_positions > 0) {
    batch.target_positions = make(Shape{num_samples, sample.target_positions}, DType::kInt32);
  }
  if (sample.target_weights) {
    batch.target_weights =
        make(sample.target_dtype == DType::kInt32 ? target : Shape{num_samples}, DType::kFloat32);
  }
  return batch;
}

/// put(tensor of `batch`, data, shape, dtype) for every tensor of `host` except targets and their weights.
/// `data` may be null on the meta device.
template <class Put>
void put_inputs(const HostBatch& host, Batch& batch, const Put& put) {
  const Shape& rows = host.input_shape;
  put(batch.inputs, host.inputs.data(), rows, host.input_dtype);
  if (const DocumentRows& documents = host.documents; !documents.empty()) {
    put(batch.key_bounds, documents.key_bounds.data(), Shape{rows.dim(0), rows.dim(1), 2}, DType::kInt32);
    put(batch.positions, documents.positions.data(), rows, DType::kInt32);
    put(batch.types, documents.types.data(), rows, DType::kInt32);
  }
  const Shape samples{rows.dim(0)};
  if (!host.timesteps.empty()) put(batch.timesteps, host.timesteps.data(), samples, DType::kFloat32);
  if (!host.condition.empty()) {
    put(batch.condition, host.condition.data(), host.condition_shape, DType::kFloat32);
  }
  if (!host.classes.empty()) put(batch.classes, host.classes.data(), samples, DType::kInt32);
}

/// The same for targets and their weights.
template <class Put>
void put_targets(const HostBatch& host, Batch& batch, const Put& put) {
  const void* const data = host.target_dtype == DType::kInt32 ? static_cast<const void*>(host.targets.data())
                                                              : host.number_targets.data();
  put(batch.targets, data, host.target_shape, host.target_dtype);
  if (!host.target_positions.empty()) {
    put(batch.target_positions, host.target_positions.data(), host.positions_shape(), DType::kInt32);
  }
  if (host.target_weights.empty()) return;
  put(batch.target_weights, host.target_weights.data(), host.weights_shape(), DType::kFloat32);
}

}  // namespace trireme
