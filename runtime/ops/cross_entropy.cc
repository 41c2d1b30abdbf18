#include "runtime/ops/cross_entropy.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct CrossEntropyBackward {
  Tensor dlogits;  // for a gradient of 1 at the loss
  ValueId logits = kNoValue;

  std::string name() const { return "softmax_cross_entropy"; }
  std::vector<Tensor> saved() const { return {dlogits}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    if (!gradients.is_unit(y)) {
      const Tensor seed = gradients.take(y);
      ctx.run(ScaleArgs{.x = dlogits, .factor = seed});
    }
    gradients.add(ctx, logits, std::move(dlogits));
  }
};

}  // namespace

namespace {

void check(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const std::int64_t rows = logits.shape().num_rows();
  TRIREME_CHECK(logits.shape().rank() >= 1 && targets.dtype() == DType::kInt32 && targets.num_elems() > 0 &&
                    rows > 0 && targets.num_elems() % rows == 0,
                "softmax_cross_entropy: logits {} want {} int32 targets, or as many a row, got {} {}",
                logits.shape().to_string(), rows, name(targets.dtype()), targets.shape().to_string());
  const Tensor& weights = options.target_weights;
  TRIREME_CHECK(!weights.defined() ||
                    (weights.dtype() == DType::kFloat32 && weights.num_elems() == targets.num_elems()),
                "softmax_cross_entropy: {} targets want as many fp32 weights, got {} {}", targets.num_elems(),
                name(weights.dtype()), weights.shape().to_string());
  TRIREME_CHECK(options.label_smoothing >= 0 && options.label_smoothing < 1,
                "softmax_cross_entropy: label_smoothing = {} is not in [0, 1)", options.label_smoothing);
}

}  // namespace

Tensor softmax_cross_entropy(Context& ctx, Tensor logits, const Tensor& targets, float inv_num_targets,
                             const CrossEntropyOptions& options) {
  check(logits, targets, options);
  const bool record = ctx.tape != nullptr;
  logits = cast(ctx, logits, ctx.precision.dtype_of(OpKind::kSoftmaxCrossEntropy, logits.dtype()));
  const ValueId logits_id = logits.id();
  if (record && !logits.unique()) {
    const Tensor copy = ctx.empty(logits.shape(), logits.dtype());
    ctx.backend->copy(ctx.exec, copy, logits);
    logits = copy;
  }
  const Tensor loss = ctx.empty({});
  const ConstTensorView flat_targets{targets.address(), DType::kInt32, Shape{targets.num_elems()}};
  ctx.run(
      SoftmaxCrossEntropyArgs{.logits = logits.rows(),
                              .targets = flat_targets,
                              .target_weights = options.target_weights,
                              .loss = loss,
                              .inv_num_targets = inv_num_targets,
                              .label_smoothing = options.label_smoothing,
                              .gradient_scale = record ? ctx.gradient_scale.const_view() : ConstTensorView{},
                              .write_gradient = record});
  return recorded(ctx, loss, CrossEntropyBackward{.dlogits = logits.detach(), .logits = logits_id});
}

}  // namespace trireme::ops
