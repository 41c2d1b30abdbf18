// The tensors of a micro-batch of a job's samples.
#pragma once

#include "parallel/layout/sample_spec.h"
#include "runtime/block.h"

namespace trireme {

/// make(shape, dtype) creates every tensor.
template <class Make>
Batch make_batch(const SampleSpec& sample, std::int64_t num_samples, const Make& make) {
  const Shape input = sample.input.batched(num_samples), target = sample.target.batched(num_samples);
  Batch batch{.inputs = make(input, sample.input_dtype), .targets = make(target, DType::kInt32)};
  if (sample.target_weights) batch.target_weights = make(target, DType::kFloat32);
  if (!sample.documents) return batch;
  batch.key_bounds = make(Shape{num_samples, input.dim(1), 2}, DType::kInt32);
  batch.positions = make(input, DType::kInt32);
  batch.types = make(input, DType::kInt32);
  return batch;
}

}  // namespace trireme
