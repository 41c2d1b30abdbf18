#include "models/yolox_loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/detection_loss.h"

namespace trireme {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

Activations YoloxLoss::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor predictions = input.at(0);
  if (!batch.targets.defined()) return {predictions};
  const Shape& images = batch.inputs.shape();
  const ops::DetectionLoss loss =
      ops::detection_loss(ctx, std::move(predictions), batch.targets, batch.target_weights,
                          {.grid = {.height = images[1], .width = images[2], .strides = kYoloxStrides},
                           .inv_num_targets = batch.inv_num_targets});
  return {loss.loss, loss.count};
}

BlockList build_yolox_detector(const YoloxConfig& config) {
  BlockList blocks = build_yolox(config);
  blocks.push_back(std::make_unique<YoloxLoss>());
  return blocks;
}

std::vector<Detection> yolox_detections(std::span<const float> rows, const YoloxPicture& picture,
                                        double min_score) {
  const auto anchors = static_cast<std::size_t>(yolox_anchors(picture.height, picture.width));
  const auto numbers = static_cast<std::size_t>(5 + picture.classes);
  TRIREME_CHECK(picture.classes >= 1 && rows.size() == anchors * numbers,
                "yolox: {} numbers are not {} predictions of {} numbers", rows.size(), anchors, numbers);
  std::vector<Detection> found;
  const float* row = rows.data();
  for (const std::int64_t stride : kYoloxStrides) {
    const std::int64_t columns = picture.width / stride, pixels = columns * (picture.height / stride);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel, row += numbers) {
      const std::span<const float> logits(row + 5, numbers - 5);
      const auto best = std::ranges::max_element(logits);
      const double score = sigmoid(row[4]) * sigmoid(*best);
      if (!(score >= min_score)) continue;
      const auto unit = static_cast<double>(stride);
      const double x = (row[0] + static_cast<double>(pixel % columns)) * unit;
      const double y = (row[1] + static_cast<double>(pixel / columns)) * unit;
      const double width = std::exp(static_cast<double>(row[2])) * unit;
      const double height = std::exp(static_cast<double>(row[3])) * unit;
      if (!std::isfinite(x + y + width + height)) continue;
      found.push_back({.box = {x - width / 2, y - height / 2, width, height},
                       .label = static_cast<std::int32_t>(best - logits.begin()),
                       .score = score});
    }
  }
  return found;
}

}  // namespace trireme
