// A YOLOX network with its own loss, or with a squared error of all predictions, and sources of images, small
// enough for every test.
#pragma once

#include <cmath>
#include <cstring>
#include <utility>

#include "models/yolox_loss.h"
#include "parallel/layout/sample_spec.h"
#include "parallel/run/execution_input.h"
#include "runtime/base/rng.h"
#include "runtime/ops/squared_error.h"

namespace trireme::testing {

inline constexpr std::int64_t kYoloxHeight = 32, kYoloxWidth = 64;

inline YoloxConfig tiny_yolox_config(bool separable) {
  return {.layers = 1, .width = 4, .separable = separable, .classes = 3};
}

/// The mean squared error of the first activation, or that activation if the batch has no targets.
class PredictionError final : public Block {
 public:
  PredictionError() : Block("loss") {}
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
    Tensor predictions = input.at(0);
    if (!batch.targets.defined()) return {predictions};
    return {ops::squared_error(ctx, std::move(predictions), batch.targets, batch.target_weights,
                               batch.inv_num_targets)};
  }
};

inline BlockList build_yolox_with_loss(const YoloxConfig& config) {
  BlockList blocks = build_yolox(config);
  blocks.push_back(std::make_unique<PredictionError>());
  return blocks;
}

inline SampleSpec yolox_sample_spec(const YoloxConfig& config) {
  SampleSpec spec;
  spec.input = {kYoloxHeight, kYoloxWidth, 3};
  spec.input_dtype = DType::kFloat32;
  spec.target = {yolox_anchors(kYoloxHeight, kYoloxWidth), 5 + config.classes};
  spec.target_dtype = DType::kFloat32;
  return spec;
}

/// Batches that depend only on (sample): images of one of two brightnesses, and targets that follow it.
inline BatchSource yolox_source(const YoloxConfig& config, std::int64_t first_of_step) {
  return [=](std::int64_t first, std::int64_t count) {
    const SampleSpec spec = yolox_sample_spec(config);
    HostBatch batch;
    batch.input_shape = {count, kYoloxHeight, kYoloxWidth, 3};
    batch.target_shape = {count, spec.target[0], spec.target[1]};
    batch.input_dtype = batch.target_dtype = DType::kFloat32;
    std::vector<float> inputs;
    for (std::int64_t s = 0; s < count; ++s) {
      const auto sample = static_cast<std::uint32_t>(first_of_step + first + s);
      const float brightness = sample % 2 == 0 ? 0.5f : -0.5f;
      for (std::int64_t i = 0; i < spec.input.num_elems(); ++i) {
        const Philox4 words = philox4x32({static_cast<std::uint32_t>(i), sample, 0, 0}, {4, 5});
        inputs.push_back(static_cast<float>(words[0]) * 0x1p-31f - 1.0f + brightness);
      }
      for (std::int64_t i = 0; i < spec.target.num_elems(); ++i) {
        const bool is_logit = i % spec.target[1] >= 4;  // starts at the logit of 0.01
        const float start = is_logit ? -4.6f : 0.0f;
        batch.number_targets.push_back(start + brightness + 0.25f * static_cast<float>(i % 5));
      }
    }
    batch.inputs.resize(inputs.size() * sizeof(float));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    return batch;
  };
}

/// The number of rows of a sample's targets, for YoloxLoss.
inline constexpr std::int64_t kYoloxBoxes = 3;

inline SampleSpec yolox_detector_sample_spec(const YoloxConfig& config) {
  SampleSpec spec = yolox_sample_spec(config);
  spec.target = {kYoloxBoxes, 5};
  spec.target_weights = true;
  return spec;
}

/// The images of yolox_source() with up to kYoloxBoxes boxes each, some without any; every third sample has
/// an L1 term.
inline BatchSource yolox_detector_source(const YoloxConfig& config, std::int64_t first_of_step) {
  return [=](std::int64_t first, std::int64_t count) {
    HostBatch batch = yolox_source(config, first_of_step)(first, count);
    batch.target_shape = {count, kYoloxBoxes, 5};
    batch.number_targets.clear();
    for (std::int64_t s = 0; s < count; ++s) {
      const auto sample = static_cast<std::uint32_t>(first_of_step + first + s);
      batch.target_weights.push_back(sample % 3 == 0 ? 1.0f : 0.0f);
      for (std::uint32_t box = 0; box < kYoloxBoxes; ++box) {
        const Philox4 words = philox4x32({sample, box, 0, 0}, {6, 7});
        const auto number = [&](std::size_t i) { return static_cast<float>(words[i]) * 0x1p-32f; };
        const bool is_empty = box >= sample % (kYoloxBoxes + 1);
        const float label = std::floor(number(0) * 0.99f * static_cast<float>(config.classes));
        batch.number_targets.insert(
            batch.number_targets.end(),
            {is_empty ? -1.0f : label, number(1) * static_cast<float>(kYoloxWidth),
             number(2) * static_cast<float>(kYoloxHeight), 6 + 30 * number(3), 6 + 20 * number(0)});
      }
    }
    return batch;
  };
}

}  // namespace trireme::testing
