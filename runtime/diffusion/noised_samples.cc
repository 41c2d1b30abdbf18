#include "runtime/diffusion/noised_samples.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/diffusion/noise_draws.h"

namespace trireme {
namespace {

// `bound` times a number in [0, 1) of 32 bits.
std::int64_t below(std::int64_t bound, std::uint32_t word) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(bound) * word >> 32);
}

}  // namespace

NoisedSamples::NoisedSamples(Options options) : options_(std::move(options)), schedule_(options_.schedule) {
  TRIREME_CHECK(options_.samples != nullptr, "there are no samples to add noise to");
  TRIREME_CHECK(options_.class_dropout >= 0 && options_.class_dropout < 1,
                "class_dropout is a probability below 1, not {}", options_.class_dropout);
  const std::int64_t all = num_samples();
  num_evaluated_ = options_.num_evaluated > 0 ? std::min(options_.num_evaluated, all) : all;
}

NoisedSamples::Draw NoisedSamples::draw_train(std::int64_t sample) const {
  const NoiseKey key{
      .stream = NoiseStream::kTrainDraws, .seed = options_.seed, .index = static_cast<std::uint64_t>(sample)};
  const Philox4 words = key.words(0);
  return {.timestep = below(NoiseSchedule::kNumTimesteps, words[0]),
          .drops_condition = static_cast<double>(words[1]) < options_.class_dropout * 4294967296.0};
}

std::int64_t NoisedSamples::eval_timestep(std::int64_t sample) const {
  // Sample i of SpreadSamples is floor(i * all / num_evaluated_); this is the inverse, rounded up.
  const std::int64_t all = num_samples(), place = (sample * num_evaluated_ + all - 1) / all;
  const auto draw = [](std::int64_t index, std::uint32_t group) {
    return NoiseKey{.stream = NoiseStream::kEvalDraws, .index = static_cast<std::uint64_t>(index)}.words(
        group)[0];
  };
  constexpr std::int64_t kBandSteps = NoiseSchedule::kNumTimesteps / kNumBands;
  const std::int64_t first_band = below(kNumBands, draw(place / kNumBands, 1));
  return (first_band + place) % kNumBands * kBandSteps + below(kBandSteps, draw(place, 0));
}

void NoisedSamples::drop_condition(HostBatch& batch, std::size_t row) const {
  if (!batch.classes.empty()) batch.classes[row] = static_cast<std::int32_t>(options_.classes - 1);
  if (batch.condition.empty()) return;
  const std::size_t elems = static_cast<std::size_t>(batch.condition_shape[1] * batch.condition_shape[2]);
  const auto out = batch.condition.begin() + static_cast<std::ptrdiff_t>(row * elems);
  if (options_.null_condition.empty()) {
    std::fill_n(out, elems, 0.0f);
  } else {
    std::copy_n(options_.null_condition.begin(), elems, out);
  }
}

HostBatch NoisedSamples::add_noise(HostBatch batch, std::int64_t first, bool training) const {
  const auto count = static_cast<std::size_t>(batch.input_shape.dim(0));
  const std::size_t elems = batch.inputs.size() / sizeof(float) / std::max<std::size_t>(1, count);
  const std::vector<std::int32_t> labels = std::exchange(batch.targets, {});
  batch.target_shape = batch.input_shape;
  batch.target_dtype = DType::kFloat32;
  batch.number_targets.resize(count * elems);
  if (options_.classes > 0) batch.classes = labels;
  std::vector<float> noise(elems);
  for (std::size_t row = 0; row < count; ++row) {
    const std::int64_t sample = first + static_cast<std::int64_t>(row);
    const Draw drawn = training ? draw_train(sample) : Draw{.timestep = eval_timestep(sample)};
    const auto signal = static_cast<float>(schedule_.signal(drawn.timestep)),
               spread = static_cast<float>(schedule_.noise(drawn.timestep));
    fill_normal({.stream = training ? NoiseStream::kTrainNoise : NoiseStream::kEvalNoise,
                 .seed = training ? options_.seed : 0,
                 .index = static_cast<std::uint64_t>(sample)},
                noise);
    float* const x = reinterpret_cast<float*>(batch.inputs.data()) + row * elems;
    float* const target = batch.number_targets.data() + row * elems;
    for (std::size_t i = 0; i < elems; ++i) {
      const float clean = x[i];
      x[i] = signal * clean + spread * noise[i];
      target[i] = options_.target == DiffusionTarget::kNoise    ? noise[i]
                  : options_.target == DiffusionTarget::kSample ? clean
                                                                : signal * noise[i] - spread * clean;
    }
    batch.timesteps.push_back(static_cast<float>(drawn.timestep));
    const bool left_out = !labels.empty() && labels[row] < 0;
    const double weight =
        training ? schedule_.min_snr_weight(drawn.timestep, options_.min_snr_gamma, options_.target) : 1.0;
    batch.target_weights.push_back(left_out ? 0.0f : static_cast<float>(weight));
    if (left_out && !batch.classes.empty()) batch.classes[row] = 0;
    if (drawn.drops_condition) drop_condition(batch, row);
  }
  return batch;
}

HostBatch NoisedSamples::read_train(std::int64_t first, std::int64_t count) const {
  return add_noise(options_.samples->read_train(first, count), first, true);
}

HostBatch NoisedSamples::read_sequential(std::int64_t first, std::int64_t count) const {
  return add_noise(options_.samples->read_sequential(first, count), first, false);
}

}  // namespace trireme
