#include "runtime/data/spread_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

/// Sample i has the number i as input, and its class i / 10 as target.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t count) : count_(count) {}
  std::int64_t num_samples() const override { return count_; }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t, std::int64_t) const override { return {}; }
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override {
    HostBatch batch{.input_shape = {count, 1}, .target_shape = {count}};
    for (std::int64_t i = first; i < first + count; ++i) {
      batch.inputs.push_back(static_cast<std::byte>(i));
      batch.targets.push_back(static_cast<std::int32_t>(i / 10));
    }
    return batch;
  }
  std::vector<std::string> left_out() const override { return {"one"}; }

 private:
  const std::int64_t count_;
};

TEST(SpreadSamples, EveryClassHasItsPart) {
  const SpreadSamples spread(std::make_shared<Numbers>(50), 5);
  EXPECT_EQ(spread.num_samples(), 5);
  EXPECT_THAT(spread.read_sequential(0, 5).targets, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(SpreadSamples(std::make_shared<Numbers>(50), 7).read_sequential(0, 7).inputs,
              ElementsAre(std::byte{0}, std::byte{7}, std::byte{14}, std::byte{21}, std::byte{28},
                          std::byte{35}, std::byte{42}));
  EXPECT_THAT(spread.left_out(), ElementsAre("one"));
}

// The samples do not depend on how reads are split.
TEST(SpreadSamples, DoNotDependOnHowTheyAreRead) {
  const SpreadSamples spread(std::make_shared<Numbers>(47), 13);
  const HostBatch all = spread.read_sequential(0, 13);
  EXPECT_EQ(all.input_shape, (Shape{13, 1}));
  for (std::int64_t i = 0; i < 13; ++i) {
    EXPECT_EQ(spread.read_sequential(i, 1).inputs[0], all.inputs[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(spread.read_sequential(4, 0).targets.size(), 0u);
}

TEST(SpreadSamples, RefuseWhatIsNotThere) {
  const auto numbers = std::make_shared<Numbers>(10);
  EXPECT_THROW(SpreadSamples(numbers, 11), Error);
  EXPECT_THROW(SpreadSamples(numbers, 0), Error);
  const SpreadSamples spread(numbers, 4);
  EXPECT_THROW(spread.read_sequential(3, 2), Error);
  EXPECT_THROW(spread.read_train(0, 1), Error);
}

}  // namespace
}  // namespace trireme
