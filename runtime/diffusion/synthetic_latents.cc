#include "runtime/diffusion/synthetic_latents.h"

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/diffusion/noise_draws.h"

namespace trireme {

SyntheticLatents::SyntheticLatents(const Options& options)
    : SyntheticDataset(options.num_samples), options_(options) {
  TRIREME_CHECK(options.latent.rank() == 3, "synthetic latents have the shape [h, w, c], not {}",
                options.latent.to_string());
}

HostBatch SyntheticLatents::make(std::int64_t first, std::int64_t count, Set /*set*/) const {
  HostBatch batch;
  batch.input_shape = options_.latent.batched(count);
  batch.target_shape = {count};
  batch.input_dtype = DType::kFloat32;
  batch.inputs.resize(static_cast<std::size_t>(batch.input_shape.num_elems()) * sizeof(float));
  auto* out = reinterpret_cast<float*>(batch.inputs.data());
  const auto condition_elems =
      options_.condition.rank() > 0 ? static_cast<std::size_t>(options_.condition.num_elems()) : 0;
  if (condition_elems > 0) batch.condition_shape = options_.condition.batched(count);
  const std::int64_t height = options_.latent[0], width = options_.latent[1], channels = options_.latent[2];
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const NoiseKey key{.stream = NoiseStream::kSynthetic,
                       .seed = options_.seed,
                       .index = static_cast<std::uint64_t>(sample)};
    // A key has 2^32 groups: the first ones draw the condition, the last one draws the rest.
    const Philox4 words = key.words(0xFFFFFFFFu);
    const auto classes = static_cast<std::uint32_t>(options_.classes > 0 ? options_.classes : 1);
    batch.targets.push_back(static_cast<std::int32_t>(words[0] % classes));
    const double along_x = 0.05 + 0.4 * uniform_from_bits(words[1]),
                 along_y = 0.05 + 0.4 * uniform_from_bits(words[2]),
                 start = 6.28 * uniform_from_bits(words[3]);
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const double phase = start + along_x * static_cast<double>(x) + along_y * static_cast<double>(y);
        for (std::int64_t c = 0; c < channels; ++c) {
          *out++ = static_cast<float>(std::sin(phase + static_cast<double>(c)));
        }
      }
    }
    if (condition_elems == 0) continue;
    batch.condition.resize(batch.condition.size() + condition_elems);
    fill_normal(key, {batch.condition.data() + batch.condition.size() - condition_elems, condition_elems});
  }
  return batch;
}

}  // namespace trireme
