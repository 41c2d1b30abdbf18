#include "runtime/diffusion/noised_samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "runtime/base/error.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/spread_samples.h"
#include "runtime/diffusion/noise_draws.h"
#include "runtime/diffusion/synthetic_latents.h"

namespace trireme {
namespace {

constexpr std::int64_t kSamples = 40;

std::shared_ptr<const Dataset> clean_samples() {
  SyntheticLatents::Options options;
  options.num_samples = kSamples;
  options.latent = {4, 6, 3};
  options.condition = {5, 2};
  options.classes = 7;
  options.seed = 11;
  return std::make_shared<SyntheticLatents>(options);
}

NoisedSamples::Options noised_options(DiffusionTarget target = DiffusionTarget::kNoise) {
  NoisedSamples::Options options;
  options.samples = clean_samples();
  options.target = target;
  options.classes = 8;
  options.seed = 3;
  return options;
}

std::vector<float> floats_of(const HostBatch& batch) {
  std::vector<float> values(batch.inputs.size() / sizeof(float));
  std::memcpy(values.data(), batch.inputs.data(), batch.inputs.size());
  return values;
}

TEST(NoisedSamples, MixSignalAndNoise) {
  const NoiseSchedule schedule{{}};
  const std::vector<float> clean = floats_of(clean_samples()->read_train(5, 9));
  const HostBatch epsilon = NoisedSamples(noised_options()).read_train(5, 9),
                  v = NoisedSamples(noised_options(DiffusionTarget::kVelocity)).read_train(5, 9),
                  x0 = NoisedSamples(noised_options(DiffusionTarget::kSample)).read_train(5, 9);
  EXPECT_EQ(x0.number_targets, clean);
  EXPECT_EQ(epsilon.inputs, v.inputs);
  EXPECT_EQ(epsilon.target_shape, epsilon.input_shape);
  const std::vector<float> x = floats_of(epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto t = static_cast<std::int64_t>(epsilon.timesteps[i / 72]);
    const double signal = schedule.signal(t), noise = schedule.noise(t), e = epsilon.number_targets[i];
    EXPECT_NEAR(x[i], signal * clean[i] + noise * e, 1e-5);
    EXPECT_NEAR(v.number_targets[i], signal * e - noise * clean[i], 1e-5);
  }
}

TEST(NoisedSamples, DrawStandardNormalNoiseAndUniformTimesteps) {
  std::vector<float> numbers(100'003);
  fill_normal({.seed = 9, .index = 4}, numbers);
  double sum = 0, squares = 0, fourth = 0;
  for (const double x : numbers) {
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  const auto count = static_cast<double>(numbers.size());
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
  EXPECT_NEAR(fourth / count, 3, 0.15);
  std::map<std::int64_t, int> bands;
  for (const float t : NoisedSamples(noised_options()).read_train(0, 5000).timesteps) {
    ++bands[NoisedSamples::band_of(static_cast<std::int64_t>(t))];
  }
  ASSERT_EQ(bands.size(), 10u);
  for (const auto& [band, number] : bands) EXPECT_NEAR(number, 500, 100) << "band " << band;
}

// The same bits for any split of a batch over ranks, micro-batches and workers.
TEST(NoisedSamples, DependOnTheSampleAlone) {
  const auto data = std::make_shared<NoisedSamples>(noised_options());
  const HostBatch all = data->read_train(37, 12);
  for (const int workers : {0, 3}) {
    Prefetcher prefetcher(data,
                          std::vector<BatchRequest>{{.first = 37, .count = 5}, {.first = 42, .count = 7}},
                          {.depth = 2, .workers = workers});
    const HostBatch first = *prefetcher.next(), second = *prefetcher.next();
    std::vector<float> x = floats_of(first), rest = floats_of(second), timesteps = first.timesteps;
    x.insert(x.end(), rest.begin(), rest.end());
    timesteps.insert(timesteps.end(), second.timesteps.begin(), second.timesteps.end());
    EXPECT_EQ(x, floats_of(all));
    EXPECT_EQ(timesteps, all.timesteps);
  }
  // The second pass has other noise, and another seed too.
  EXPECT_NE(data->read_train(0, 4).timesteps, data->read_train(kSamples, 4).timesteps);
  NoisedSamples::Options other = noised_options();
  other.seed = 4;
  EXPECT_NE(NoisedSamples(other).read_train(37, 12).timesteps, all.timesteps);
}

TEST(NoisedSamples, AreEvaluatedWithFixedNoise) {
  NoisedSamples::Options options = noised_options(), other = noised_options();
  options.min_snr_gamma = 5;
  other.seed = 99;
  const auto data = std::make_shared<NoisedSamples>(options);
  const HostBatch batch = data->read_sequential(3, 20);
  EXPECT_EQ(batch.inputs, NoisedSamples(other).read_sequential(3, 20).inputs);
  EXPECT_EQ(batch.target_weights, std::vector<float>(20, 1.0f));
  EXPECT_NE(data->read_train(3, 20).target_weights, batch.target_weights);
  const SpreadSamples spread(data, 4);
  EXPECT_EQ(spread.read_sequential(1, 1).timesteps[0], data->read_sequential(10, 1).timesteps[0]);
}

TEST(NoisedSamples, DropClassesAndConditions) {
  NoisedSamples::Options options = noised_options();
  options.class_dropout = 0.25;
  options.null_condition.assign(10, -7.0f);
  const HostBatch kept = NoisedSamples(noised_options()).read_train(0, 2000),
                  batch = NoisedSamples(options).read_train(0, 2000);
  EXPECT_EQ(kept.inputs, batch.inputs);
  int dropped = 0;
  for (std::size_t row = 0; row < 2000; ++row) {
    const bool drops = batch.classes[row] == 7;
    dropped += drops;
    EXPECT_LT(kept.classes[row], 7);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(batch.condition[row * 10 + i], drops ? -7.0f : kept.condition[row * 10 + i]);
    }
  }
  EXPECT_NEAR(dropped, 500, 80);
  const HostBatch evaluated = NoisedSamples(options).read_sequential(0, kSamples);
  EXPECT_EQ(std::ranges::count(evaluated.classes, 7), 0);
}

std::vector<int> samples_by_band(const Dataset& data, std::int64_t first, std::int64_t count) {
  std::vector<int> bands(NoisedSamples::kNumBands);
  for (const float t : data.read_sequential(first, count).timesteps) {
    ++bands[static_cast<std::size_t>(NoisedSamples::band_of(static_cast<std::int64_t>(t)))];
  }
  return bands;
}

// An evaluation that reads a part of the samples has them in all bands, whatever the distance of its samples.
TEST(NoisedSamples, EvaluationsHaveEqualBands) {
  EXPECT_EQ(samples_by_band(NoisedSamples(noised_options()), 0, kSamples), std::vector<int>(10, 4));
  for (const std::int64_t count : {10, 20, 30, 400}) {
    NoisedSamples::Options options = noised_options();
    options.num_evaluated = count;
    const auto data = std::make_shared<NoisedSamples>(options);
    const std::int64_t read = std::min(count, kSamples);
    EXPECT_EQ(samples_by_band(SpreadSamples(data, read), 0, read),
              std::vector<int>(10, static_cast<int>(read / 10)))
        << count;
  }
  // The order of bands and the timesteps within one differ from ten to ten samples.
  const std::vector<float> t = NoisedSamples(noised_options()).read_sequential(0, kSamples).timesteps;
  EXPECT_NE(std::vector<float>(t.begin(), t.begin() + 10),
            std::vector<float>(t.begin() + 10, t.begin() + 20));
}

/// Every third sample was left out.
class Damaged final : public Dataset {
 public:
  std::int64_t num_samples() const override { return 9; }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override {
    return read_sequential(first, count);
  }
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override {
    HostBatch batch = clean_samples()->read_sequential(first, count);
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      if ((first + static_cast<std::int64_t>(i)) % 3 == 0) batch.targets[i] = -1;
    }
    return batch;
  }
};

TEST(NoisedSamples, GiveSamplesThatWereLeftOutNoWeight) {
  NoisedSamples::Options options = noised_options();
  options.samples = std::make_shared<Damaged>();
  const HostBatch batch = NoisedSamples(options).read_sequential(0, 6);
  EXPECT_EQ(batch.target_weights, (std::vector<float>{0, 1, 1, 0, 1, 1}));
  EXPECT_GE(*std::ranges::min_element(batch.classes), 0);
}

TEST(NoisedSamples, RefuseBadOptions) {
  EXPECT_THROW(NoisedSamples({}), Error);
  NoisedSamples::Options options = noised_options();
  options.class_dropout = 1;
  EXPECT_THROW(NoisedSamples{options}, Error);
}

}  // namespace
}  // namespace trireme
