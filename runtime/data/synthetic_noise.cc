#include "runtime/data/synthetic_noise.h"

#include <cmath>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/image_random.h"

namespace trireme {
namespace {

// Epoch numbers of the random stream, distinct from those of SyntheticImages.
constexpr std::uint32_t kNoiseTrainEpoch = 3, kNoiseEvalEpoch = 4;
constexpr int kTimesteps = 1000;

}  // namespace

SyntheticNoise::SyntheticNoise(const Options& options) : options_(options) {
  TRIREME_CHECK(options.num_samples > 0 && options.size > 0 && options.channels > 0,
                "synthetic noise needs positive numbers of samples, pixels and channels, got {}, {} and {}",
                options.num_samples, options.size, options.channels);
}

HostBatch SyntheticNoise::make(std::int64_t first, std::int64_t count, std::uint32_t set) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  const std::int64_t size = options_.size, channels = options_.channels, pixels = size * size;
  const std::int64_t numbers = options_.condition_vectors * options_.condition_width;
  HostBatch batch;
  batch.input_shape = batch.target_shape = {count, size, size, channels};
  batch.input_dtype = batch.target_dtype = DType::kFloat32;
  batch.inputs.resize(static_cast<std::size_t>(count * pixels * channels) * sizeof(float));
  if (numbers > 0) batch.condition_shape = {count, options_.condition_vectors, options_.condition_width};
  auto* input = reinterpret_cast<float*>(batch.inputs.data());
  std::vector<float> plane(static_cast<std::size_t>(channels));
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    ImageRandom random(ImageRandom::Stream::kSynthetic, options_.seed, set,
                       static_cast<std::uint32_t>(sample));
    const int timestep = random.below(kTimesteps);
    batch.timesteps.push_back(static_cast<float>(timestep));
    if (options_.num_classes > 0) {
      batch.classes.push_back(random.below(static_cast<int>(options_.num_classes)));
    }
    for (std::int64_t i = 0; i < numbers; ++i) {
      batch.condition.push_back(static_cast<float>(random.normal()));
    }
    for (float& value : plane) value = static_cast<float>(random.uniform(-1, 1));
    const auto noise = static_cast<float>(std::sqrt(timestep / static_cast<double>(kTimesteps)));
    const float signal = std::sqrt(1.0f - noise * noise);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (const float value : plane) {
        const auto e = static_cast<float>(random.normal());
        *input++ = signal * value + noise * e;
        batch.number_targets.push_back(e);
      }
    }
  }
  return batch;
}

HostBatch SyntheticNoise::read_train(std::int64_t first, std::int64_t count) const {
  return make(first, count, kNoiseTrainEpoch);
}

HostBatch SyntheticNoise::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first + count <= num_samples(), "samples {} to {} were requested, but there are only {}",
                first, first + count - 1, num_samples());
  return make(first, count, kNoiseEvalEpoch);
}

}  // namespace trireme
