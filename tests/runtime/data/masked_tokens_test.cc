#include "runtime/data/masked_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  EXPECT_NEAR(targets / static_cast<double>(kRead * kLength), 0.15, 0.0046);
  EXPECT_NEAR(static_cast<double>(hidden) / targets, 0.8, 0.0131);
  EXPECT_NEAR(static_cast<double>(kept) / targets, 0.1, 0.0098);
}

TEST(MaskedTokens, CountsTheTargetsThatItReads) {
  const MaskedTokens data = masked();
  for (const auto& [first, count] : {std::pair{0, 1}, {3, 7}, {90, 25}}) {
    EXPECT_EQ(data.num_train_targets(first, count), num_targets(data.read_train(first, count)));
  }
  EXPECT_EQ(data.num_sequential_targets(10, 20), num_targets(data.read_sequential(10, 20)));
  EXPECT_NE(data.num_train_targets(0, 16), data.num_train_targets(16, 16));
}

TEST(MaskedTokens, FollowFromSeedEpochAndSampleAlone) {
  const MaskedTokens data = masked();
  const HostBatch all = data.read_train(0, 8), one = data.read_train(5, 1);
  EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(), all.targets.begin() + 5 * kLength));
  EXPECT_NE(masked(0.15, 4).read_train(5, 1).targets, one.targets);
  EXPECT_NE(data.num_train_targets(0, kSamples), data.num_train_targets(kSamples, kSamples));
  EXPECT_NE(data.num_train_targets(0, kSamples), data.num_sequential_targets(0, kSamples));
}

TEST(MaskedTokens, MayHaveNoTargetOrBeAllTargets) {
  EXPECT_EQ(masked(1e-9).num_train_targets(0, 100), 0);
  EXPECT_EQ(masked(1.0).num_train_targets(0, 100), 100 * kLength);
}

TEST(MaskedTokens, RefusesWhatCannotBe) {
  EXPECT_THROW(masked(0.0), Error);
  EXPECT_THROW(masked(1.5), Error);
  EXPECT_THROW(MaskedTokens({.tokens = tokens(), .mask_token = 1000, .vocab_size = kVocab}), Error);
}

}  // namespace
}  // namespace trireme
