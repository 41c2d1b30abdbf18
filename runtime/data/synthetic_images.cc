#include "runtime/data/synthetic_images.h"

#include <array>
#include <cmath>
#include <numbers>

#include "runtime/base/error.h"
#include "runtime/data/image_random.h"

namespace trireme {
namespace {

// Epoch numbers of the random stream, one per kind of draw.
constexpr std::uint32_t kPatternsEpoch = 0, kTrainEpoch = 1, kEvalEpoch = 2;

struct Pattern {
  double step_x = 0, step_y = 0;  // radians a pixel
  std::array<float, 3> colour{};
};

Pattern pattern_of(std::uint64_t seed, std::int32_t label, std::int64_t size) {
  ImageRandom random(ImageRandom::Stream::kSynthetic, seed, kPatternsEpoch,
                     static_cast<std::uint32_t>(label));
  const double waves = 2 * std::numbers::pi / static_cast<double>(size);
  Pattern pattern{.step_x = waves * random.uniform(0, 4), .step_y = waves * random.uniform(0, 4)};
  for (float& channel : pattern.colour) channel = static_cast<float>(random.uniform(-1, 1));
  return pattern;
}

/// [size, size, 3]. The wave is a sum of a sine along y and a sine along x.
void draw_image(const Pattern& pattern, std::int64_t size, ImageRandom& random, float* out) {
  constexpr double kSqrt3 = 1.7320508075688772;  // uniform in [-sqrt 3, sqrt 3] has variance 1
  const double phase = random.uniform(0, 2 * std::numbers::pi);
  for (std::int64_t y = 0; y < size; ++y) {
    const double along_y = std::sin(phase + pattern.step_y * static_cast<double>(y));
    for (std::int64_t x = 0; x < size; ++x) {
      const auto wave =
          static_cast<float>(along_y + std::sin(phase + pattern.step_x * static_cast<double>(x)));
      for (const float colour : pattern.colour) {
        *out++ = colour * wave + 0.7f * static_cast<float>(random.uniform(-kSqrt3, kSqrt3));
      }
    }
  }
}

}  // namespace

SyntheticImages::SyntheticImages(const Options& options)
    : SyntheticDataset(options.num_samples), options_(options) {
  TRIREME_CHECK(options.size > 0 && options.num_classes > 0,
                "synthetic images need positive numbers of pixels and classes, got {} and {}", options.size,
                options.num_classes);
}

HostBatch SyntheticImages::make(std::int64_t first, std::int64_t count, Set set) const {
  const std::int64_t size = options_.size, elems = size * size * 3;
  HostBatch batch;
  batch.input_shape = {count, size, size, 3};
  batch.target_shape = {count};
  batch.input_dtype = DType::kFloat32;
  batch.inputs.resize(static_cast<std::size_t>(count * elems) * sizeof(float));
  auto* out = reinterpret_cast<float*>(batch.inputs.data());
  for (std::int64_t sample = first; sample < first + count; ++sample, out += elems) {
    ImageRandom random(ImageRandom::Stream::kSynthetic, options_.seed,
                       set == Set::kTrain ? kTrainEpoch : kEvalEpoch, static_cast<std::uint32_t>(sample));
    const auto label = static_cast<std::int32_t>(random.below(static_cast<int>(options_.num_classes)));
    batch.targets.push_back(label);
    draw_image(pattern_of(options_.seed, label, size), size, random, out);
  }
  return batch;
}

}  // namespace trireme
