#include "parallel/boundary_shapes.h"

#include "parallel/shapes_only.h"

namespace trireme {

BoundaryShapes::BoundaryShapes(const BlockList& blocks, const Precision& precision, const SampleSpec& sample)
    : blocks_(blocks), precision_(precision), sample_(sample) {}

const std::vector<TensorSpec>& BoundaryShapes::of(int unit, std::int64_t num_samples) {
  auto known = known_.find(num_samples);
  if (known == known_.end()) known = known_.emplace(num_samples, run(num_samples)).first;
  return known->second.at(static_cast<std::size_t>(unit));
}

std::vector<std::vector<TensorSpec>> BoundaryShapes::run(std::int64_t num_samples) const {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  ctx.precision = precision_;
  ctx.training = true;  // norms then want no running statistics; the shapes are those of evaluation
  const Batch batch{.inputs = ctx.empty(sample_.input.batched(num_samples), sample_.input_dtype),
                    .targets = ctx.empty(sample_.target.batched(num_samples), DType::kInt32)};
  std::vector<std::vector<TensorSpec>> outputs;
  Activations activations;
  for (std::size_t u = 0; u + 1 < blocks_.size(); ++u) {
    ShapesOnly parameters(ctx, *blocks_[u]);
    ctx.parameters = &parameters;
    activations = blocks_[u]->forward(ctx, activations, batch);
    std::vector<TensorSpec>& specs = outputs.emplace_back();
    for (const Tensor& tensor : activations) specs.push_back({tensor.shape(), tensor.dtype()});
  }
  return outputs;
}

}  // namespace trireme
