#include "runtime/data/masked_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/data/synthetic_tokens.h"

namespace trireme {
namespace {

constexpr std::int64_t kSamples = 100, kLength = 50, kVocab = 1000;
constexpr std::int32_t kMask = 999;

std::shared_ptr<const Dataset> tokens() {
  return std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
      .num_samples = kSamples, .sequence_length = kLength, .vocab_size = kVocab, .seed = 5});
}

MaskedTokens masked(double probability = 0.15, std::uint64_t seed = 3) {
  return MaskedTokens({.tokens = tokens(),
                       .seed = seed,
                       .probability = probability,
                       .mask_token = kMask,
                       .vocab_size = kVocab});
}

std::vector<std::int32_t> inputs_of(const HostBatch& batch) {
  std::vector<std::int32_t> inputs(batch.targets.size());
  std::memcpy(inputs.data(), batch.inputs.data(), batch.inputs.size());
  return inputs;
}

std::int64_t num_targets(const HostBatch& batch) {
  return std::ranges::count_if(batch.targets, [](std::int32_t target) { return target >= 0; });
}

// Bounds are 4 standard deviations for this number of draws.
TEST(MaskedTokens, FifteenInAHundredAreTargetsOfWhichEightInTenAreMasked) {
  constexpr std::int64_t kRead = 2000;
  const HostBatch plain = tokens()->read_train(0, kRead), batch = masked().read_train(0, kRead);
  const std::vector<std::int32_t> before = inputs_of(plain), after = inputs_of(batch);
  std::int64_t hidden = 0, kept = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (batch.targets[i] < 0) {
      EXPECT_EQ(after[i], before[i]);
      continue;
    }
    EXPECT_EQ(batch.targets[i], before[i]);
    hidden += after[i] == kMask ? 1 : 0;
    kept += after[i] == before[i] ? 1 : 0;
  }
  const auto targets = static_cast<double>(num_targets(batch));
  EXPECT_EQ(num_targets(batch), kRead * 8) << "0.15 * 50 = 7.5 tokens of each row, rounded";
  EXPECT_NEAR(static_cast<double>(hidden) / targets, 0.8, 0.0131);
  EXPECT_NEAR(static_cast<double>(kept) / targets, 0.1, 0.0098);
}

TEST(MaskedTokens, CountsTheTargetsThatItReads) {
  const MaskedTokens data = masked();
  for (const auto& [first, count] : {std::pair{0, 1}, {3, 7}, {90, 25}}) {
    EXPECT_EQ(data.num_train_targets(first, count), num_targets(data.read_train(first, count)));
  }
  EXPECT_EQ(data.num_sequential_targets(10, 20), num_targets(data.read_sequential(10, 20)));
}

TEST(MaskedTokens, NamesThePositionsOfTargets) {
  const HostBatch batch = masked().read_train(30, 9);
  ASSERT_EQ(batch.positions_shape(), Shape({9, 8}));
  for (std::size_t row = 0; row < 9; ++row) {
    std::vector<std::int32_t> positions;
    for (std::int32_t t = 0; t < kLength; ++t) {
      if (batch.targets[row * kLength + static_cast<std::size_t>(t)] >= 0) positions.push_back(t);
    }
    const auto named = batch.target_positions.begin() + static_cast<std::ptrdiff_t>(row) * 8;
    EXPECT_EQ(positions, std::vector<std::int32_t>(named, named + 8));
  }
}

// Every position is a target equally often, within 5 standard deviations.
TEST(MaskedTokens, SpreadOverTheRow) {
  constexpr std::int64_t kRead = 3000;
  const HostBatch batch = masked().read_train(0, kRead);
  std::vector<int> counts(kLength, 0);
  for (const std::int32_t position : batch.target_positions) ++counts[static_cast<std::size_t>(position)];
  for (const int count : counts)
    EXPECT_NEAR(count, kRead * 8.0 / kLength, 5 * std::sqrt(kRead * 0.16 * 0.84));
}

TEST(MaskedTokens, FollowFromSeedEpochAndSampleAlone) {
  const MaskedTokens data = masked();
  const HostBatch all = data.read_train(0, 8), one = data.read_train(5, 1);
  EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(), all.targets.begin() + 5 * kLength));
  EXPECT_NE(masked(0.15, 4).read_train(5, 1).targets, one.targets);
  EXPECT_NE(data.read_train(0, kSamples).target_positions,
            data.read_train(kSamples, kSamples).target_positions);
  EXPECT_NE(data.read_train(0, kSamples).target_positions,
            data.read_sequential(0, kSamples).target_positions);
}

TEST(MaskedTokens, OneTargetAtLeastOrAll) {
  EXPECT_EQ(masked(1e-9).num_train_targets(0, 100), 100);
  EXPECT_EQ(masked(1.0).num_train_targets(0, 100), 100 * kLength);
  EXPECT_EQ(MaskedTokens::num_targets(0, 0.15), 0);
  EXPECT_EQ(MaskedTokens::num_targets(1, 0.15), 1);
  EXPECT_EQ(MaskedTokens::num_targets(128, 0.15), 19);
}

TEST(MaskedTokens, RefusesWhatCannotBe) {
  EXPECT_THROW(masked(0.0), Error);
  EXPECT_THROW(masked(1.5), Error);
  EXPECT_THROW(MaskedTokens({.tokens = tokens(), .mask_token = 1000, .vocab_size = kVocab}), Error);
}

}  // namespace
}  // namespace trireme
