#include "launcher/train/noise_bands.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/diffusion/noised_samples.h"
#include "runtime/ops/squared_error.h"

namespace trireme {

NoiseBands::NoiseBands(std::int64_t num_samples)
    : losses_(static_cast<std::size_t>(num_samples), 0.0f), timesteps_(losses_.size(), -1.0f) {}

void NoiseBands::add(Context ctx, const Tensor& prediction, const Batch& batch, std::int64_t first) {
  ctx.tape = nullptr;
  const std::vector<float> losses = ctx.to_host(ops::sample_squared_errors(ctx, prediction, batch.targets));
  const std::vector<float> timesteps = ctx.to_host(batch.timesteps);
  const std::vector<float> weights = batch.target_weights.defined() ? ctx.to_host(batch.target_weights)
                                                                    : std::vector<float>(losses.size(), 1.0f);
  for (std::size_t row = 0; row < losses.size(); ++row) {
    if (weights[row] == 0) continue;
    losses_.at(static_cast<std::size_t>(first) + row) = losses[row];
    timesteps_.at(static_cast<std::size_t>(first) + row) = timesteps[row];
  }
}

void NoiseBands::gather(Communicator& comm) {
  const std::vector<float> losses = comm.all_gather_values(std::span<const float>(losses_)),
                           timesteps = comm.all_gather_values(std::span<const float>(timesteps_));
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (timesteps[i] < 0) continue;
    losses_[i % losses_.size()] = losses[i];
    timesteps_[i % losses_.size()] = timesteps[i];
  }
}

std::vector<double> NoiseBands::means() const {
  std::vector<double> sums(NoisedSamples::kNumBands), counts(sums.size());
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    if (timesteps_[i] < 0) continue;
    const auto band =
        static_cast<std::size_t>(NoisedSamples::band_of(static_cast<std::int64_t>(timesteps_[i])));
    sums.at(band) += losses_[i];
    counts[band] += 1;
  }
  for (std::size_t band = 0; band < sums.size(); ++band) sums[band] /= counts[band];
  return sums;
}

std::int64_t NoiseBands::num_samples() const {
  const auto count = std::ranges::count_if(timesteps_, [](float timestep) { return timestep >= 0; });
  TRIREME_CHECK(count > 0, "none of the {} samples to evaluate could be read", timesteps_.size());
  return count;
}

}  // namespace trireme
