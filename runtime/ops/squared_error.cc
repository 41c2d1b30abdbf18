#include "runtime/ops/squared_error.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct SquaredErrorBackward {
  Tensor dprediction;  // for a gradient of 1 at the loss
  ValueId prediction = kNoValue;

  std::string name() const { return "squared_error"; }
  std::vector<Tensor> saved() const { return {dprediction}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    if (!gradients.is_unit(y)) {
      const Tensor seed = gradients.take(y);
      ctx.run(ScaleArgs{.x = dprediction, .factor = seed});
    }
    gradients.add(ctx, prediction, std::move(dprediction));
  }
};

void check_target(const Tensor& prediction, const Tensor& target) {
  TRIREME_CHECK(
      prediction.shape().rank() >= 1 && prediction.num_elems() > 0 && target.shape() == prediction.shape(),
      "squared_error: prediction {} and target {} are not two equal shapes [B, ...]",
      prediction.shape().to_string(), target.shape().to_string());
}

}  // namespace

Tensor squared_error(Context& ctx, Tensor prediction, const Tensor& target, const Tensor& sample_weights,
                     float inv_num_targets) {
  check_target(prediction, target);
  const std::int64_t samples = prediction.shape()[0];
  TRIREME_CHECK(!sample_weights.defined() ||
                    (sample_weights.dtype() == DType::kFloat32 && sample_weights.shape() == Shape{samples}),
                "squared_error: {} samples want as many fp32 weights, got {} {}", samples,
                name(sample_weights.dtype()), sample_weights.shape().to_string());
  const bool record = ctx.tape != nullptr;
  prediction = cast(ctx, prediction, ctx.precision.dtype_of(OpKind::kSquaredError, prediction.dtype()));
  const ValueId id = prediction.id();
  if (record && !prediction.unique()) {
    const Tensor copy = ctx.empty(prediction.shape(), prediction.dtype());
    ctx.backend->copy(ctx.exec, copy, prediction);
    prediction = copy;
  }
  const Tensor wide = cast(ctx, target.detach(), DType::kFloat32);
  const Tensor loss = ctx.empty({}), errors = ctx.empty({samples});
  ctx.run(SquaredErrorArgs{.prediction = prediction,
                           .target = wide,
                           .sample_weights = sample_weights,
                           .sample_errors = errors,
                           .loss = loss,
                           .inv_num_targets = inv_num_targets,
                           .gradient_scale = record ? ctx.gradient_scale.const_view() : ConstTensorView{},
                           .write_gradient = record});
  return recorded(ctx, loss, SquaredErrorBackward{.dprediction = prediction.detach(), .prediction = id});
}

Tensor sample_squared_errors(Context& ctx, const Tensor& prediction, const Tensor& target) {
  check_target(prediction, target);
  const Tensor wide = cast(ctx, target.detach(), DType::kFloat32);
  Tensor errors = ctx.empty({prediction.shape()[0]});
  ctx.run(SquaredErrorArgs{.prediction = prediction, .target = wide, .sample_errors = errors});
  return errors;
}

}  // namespace trireme::ops
