// UNets and a source of noised images small enough for every test.
#pragma once

#include <cstring>

#include "models/unet.h"
#include "parallel/layout/sample_spec.h"
#include "parallel/run/execution_input.h"
#include "runtime/base/rng.h"

namespace trireme::testing {

inline constexpr std::int64_t kUnetPixels = 8, kUnetClasses = 5;
inline constexpr std::int64_t kUnetCondition = 7, kUnetConditionWidth = 12;

/// Class-conditional, with self-attention at the second of three levels.
inline UnetConfig tiny_unet_config() {
  return {.widths = {8, 16, 24},
          .layers = 1,
          .attention_levels = {1},
          .head_width = 8,
          .classes = kUnetClasses,
          .norm_groups = 4,
          .dropout = 0.1f,
          .style = UnetStyle::kDdpm};
}

/// With attention to a condition at both levels.
inline UnetConfig tiny_conditional_unet_config() {
  return {.channels = 4,
          .widths = {8, 16},
          .layers = 1,
          .attention_levels = {0, 1},
          .heads = 2,
          .condition_width = kUnetConditionWidth,
          .linear_projection = true,
          .norm_groups = 4};
}

inline SampleSpec unet_sample_spec(const UnetConfig& config) {
  SampleSpec spec;
  spec.input = {kUnetPixels, kUnetPixels, config.channels};
  spec.input_dtype = DType::kFloat32;
  spec.target = spec.input;
  spec.target_dtype = DType::kFloat32;
  spec.target_weights = true;
  spec.timesteps = true;
  if (config.condition_width > 0) spec.condition = {kUnetCondition, config.condition_width};
  spec.classes = config.classes > 0;
  return spec;
}

/// Batches that depend only on (sample): images, and targets near their negative.
inline BatchSource unet_source(const UnetConfig& config, std::int64_t first_of_step) {
  return [=](std::int64_t first, std::int64_t count) {
    const std::int64_t elems = kUnetPixels * kUnetPixels * config.channels;
    const Shape shape{count, kUnetPixels, kUnetPixels, config.channels};
    HostBatch batch;
    batch.input_shape = batch.target_shape = shape;
    batch.input_dtype = batch.target_dtype = DType::kFloat32;
    std::vector<float> inputs;
    const auto draw = [](std::uint32_t sample, std::int64_t i, std::uint32_t stream) {
      const Philox4 words = philox4x32({static_cast<std::uint32_t>(i), sample, stream, 0}, {3, 9});
      return static_cast<float>(words[0]) * 0x1p-31f - 1.0f;
    };
    for (std::int64_t s = 0; s < count; ++s) {
      const auto sample = static_cast<std::uint32_t>(first_of_step + first + s);
      for (std::int64_t i = 0; i < elems; ++i) {
        inputs.push_back(draw(sample, i, 0));
        batch.number_targets.push_back(0.2f * draw(sample, i, 1) - inputs.back());
      }
      batch.target_weights.push_back(0.5f + 0.25f * static_cast<float>(sample % 4));
      batch.timesteps.push_back(static_cast<float>(sample * 37 % 1000));
      for (std::int64_t i = 0; i < kUnetCondition * config.condition_width; ++i) {
        batch.condition.push_back(draw(sample, i, 2));
      }
      if (config.classes > 0) batch.classes.push_back(static_cast<std::int32_t>(sample % kUnetClasses));
    }
    if (config.condition_width > 0) {
      batch.condition_shape = {count, kUnetCondition, config.condition_width};
    }
    batch.inputs.resize(inputs.size() * sizeof(float));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    return batch;
  };
}

}  // namespace trireme::testing
