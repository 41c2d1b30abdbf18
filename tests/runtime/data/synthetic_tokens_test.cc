#include "runtime/data/synthetic_tokens.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

SyntheticTokens make(std::uint64_t seed, std::int64_t vocab = 50) {
  return SyntheticTokens({.num_samples = 100, .sequence_length = 16, .vocab_size = vocab, .seed = seed});
}

TEST(SyntheticTokens, SameSeedSameTokensHoweverTheyAreRead) {
  const SyntheticTokens data = make(1);
  const HostBatch all = data.read_train(5, 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    const HostBatch one = data.read_train(5 + i, 1);
    EXPECT_EQ(std::memcmp(one.inputs.data(), all.inputs.data() + i * 64, 64), 0);
    EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(), all.targets.begin() + i * 16));
  }
  EXPECT_EQ(make(1).read_train(5, 4).targets, all.targets);
  EXPECT_NE(make(2).read_train(5, 4).targets, all.targets);
  EXPECT_NE(data.read_sequential(5, 4).targets, all.targets);
}

TEST(SyntheticTokens, TargetsFollowInputsAndStayInTheVocabulary) {
  const HostBatch batch = make(3).read_train(0, 50);
  EXPECT_EQ(batch.input_shape, (Shape{50, 16}));
  std::vector<std::int32_t> inputs(batch.targets.size());
  std::memcpy(inputs.data(), batch.inputs.data(), batch.inputs.size());
  std::map<std::int32_t, int> steps;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i % 16 != 0) {
      EXPECT_EQ(inputs[i], batch.targets[i - 1]);
    }
    EXPECT_GE(batch.targets[i], 0);
    EXPECT_LT(batch.targets[i], 50);
    ++steps[(batch.targets[i] - inputs[i] + 50) % 50];
  }
  int most = 0;
  for (const auto& [step, count] : steps) most = std::max(most, count);
  EXPECT_NEAR(most / 800.0, 0.755, 0.08);  // 3/4, and 1/50 of the rest by chance; five deviations
}

TEST(SyntheticTokens, RefusesSizesThatMakeNoSense) {
  EXPECT_THROW(make(1, 1), Error);
  EXPECT_THROW(SyntheticTokens({.num_samples = 0, .sequence_length = 1, .vocab_size = 5}), Error);
  EXPECT_THROW(SyntheticTokens({.num_samples = 1, .sequence_length = 0, .vocab_size = 5}), Error);
  EXPECT_THROW(make(1).read_sequential(99, 2), Error);
}

}  // namespace
}  // namespace trireme
