// A ResNet and a source of images small enough for every test.
#pragma once

#include <cstring>

#include "models/resnet.h"
#include "parallel/run/execution_input.h"
#include "runtime/base/rng.h"

namespace trireme::testing {

inline constexpr std::int64_t kTinyPixels = 10;

inline ResNetConfig tiny_resnet_config() {
  return {.stem = ResNetConfig::Stem::kCifar, .bottleneck = true, .units = {1, 2}, .width = 4, .classes = 5};
}

/// Images that depend only on (sample), brighter for larger labels.
inline BatchSource image_source(std::int64_t pixels, std::int64_t classes, std::int64_t first_of_step) {
  return [=](std::int64_t first, std::int64_t count) {
    HostBatch batch{
        .input_shape = {count, pixels, pixels, 3}, .target_shape = {count}, .input_dtype = DType::kFloat32};
    std::vector<float> inputs;
    for (std::int64_t s = 0; s < count; ++s) {
      const auto sample = static_cast<std::uint32_t>(first_of_step + first + s);
      const auto label = static_cast<std::int32_t>(sample * 7 % static_cast<std::uint32_t>(classes));
      batch.targets.push_back(label);
      for (std::int64_t i = 0; i < pixels * pixels * 3; ++i) {
        const Philox4 words = philox4x32({static_cast<std::uint32_t>(i), sample, 0, 0}, {9, 9});
        inputs.push_back(static_cast<float>(words[0]) * 0x1p-31f - 1.0f + 0.3f * static_cast<float>(label));
      }
    }
    batch.inputs.resize(inputs.size() * sizeof(float));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    return batch;
  };
}

}  // namespace trireme::testing
