#include "runtime/ops/detection_loss.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct DetectionLossBackward {
  Tensor dpredictions;  // for a gradient of 1 at the loss
  ValueId predictions = kNoValue;

  std::string name() const { return "detection_loss"; }
  std::vector<Tensor> saved() const { return {dpredictions}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    if (!gradients.is_unit(y)) {
      const Tensor seed = gradients.take(y);
      ctx.run(ScaleArgs{.x = dpredictions, .factor = seed});
    }
    gradients.add(ctx, predictions, std::move(dpredictions));
  }
};

std::int64_t num_anchors(const AnchorGrid& grid) {
  std::int64_t anchors = 0;
  for (const std::int64_t stride : grid.strides) {
    TRIREME_CHECK(stride >= 1 && grid.height % stride == 0 && grid.width % stride == 0,
                  "detection_loss: a picture of {} x {} has no feature map of stride {}", grid.height,
                  grid.width, stride);
    anchors += (grid.height / stride) * (grid.width / stride);
  }
  return anchors;
}

void check_shapes(const Tensor& predictions, const Tensor& targets, const Tensor& l1_weights,
                  const AnchorGrid& grid) {
  const Shape& shape = predictions.shape();
  const std::int64_t anchors = num_anchors(grid);
  TRIREME_CHECK(shape.rank() == 3 && shape[0] >= 1 && shape[1] == anchors && shape[2] > 5 &&
                    shape[2] <= 5 + kMaxDetectionClasses,
                "detection_loss: predictions {} are not [B, {}, 5 + C] with C at most {}", shape.to_string(),
                anchors, kMaxDetectionClasses);
  const Shape& rows = targets.shape();
  TRIREME_CHECK(targets.dtype() == DType::kFloat32 && rows.rank() == 3 && rows[0] == shape[0] && rows[2] == 5,
                "detection_loss: targets {} {} are not fp32 [{}, M, 5]", name(targets.dtype()),
                rows.to_string(), shape[0]);
  TRIREME_CHECK(!l1_weights.defined() ||
                    (l1_weights.dtype() == DType::kFloat32 && l1_weights.shape() == Shape{shape[0]}),
                "detection_loss: {} pictures want as many fp32 weights of the L1 part, got {} {}", shape[0],
                name(l1_weights.dtype()), l1_weights.shape().to_string());
}

}  // namespace

DetectionLoss detection_loss(Context& ctx, Tensor predictions, const Tensor& targets,
                             const Tensor& l1_weights, const DetectionLossOptions& options) {
  check_shapes(predictions, targets, l1_weights, options.grid);
  const bool record = ctx.tape != nullptr;
  predictions = cast(ctx, predictions, ctx.precision.dtype_of(OpKind::kDetectionLoss, predictions.dtype()));
  const ValueId id = predictions.id();
  if (record && !predictions.unique()) {
    const Tensor copy = ctx.empty(predictions.shape(), predictions.dtype());
    ctx.backend->copy(ctx.exec, copy, predictions);
    predictions = copy;
  }
  const std::int64_t pictures = predictions.shape()[0];
  DetectionLoss result{.loss = ctx.empty({}),
                       .count = ctx.empty({}),
                       .parts = ctx.empty({pictures, kNumDetectionParts}),
                       .objects = ctx.empty({pictures, predictions.shape()[1]}, DType::kInt32)};
  ctx.run(DetectionLossArgs{.predictions = predictions,
                            .targets = targets,
                            .l1_weights = l1_weights,
                            .objects = result.objects,
                            .parts = result.parts,
                            .loss = result.loss,
                            .count = result.count,
                            .grid = options.grid,
                            .inv_num_targets = options.inv_num_targets,
                            .gradient_scale = record ? ctx.gradient_scale.const_view() : ConstTensorView{},
                            .write_gradient = record});
  result.loss = recorded(ctx, result.loss,
                         DetectionLossBackward{.dpredictions = predictions.detach(), .predictions = id});
  return result;
}

}  // namespace trireme::ops
