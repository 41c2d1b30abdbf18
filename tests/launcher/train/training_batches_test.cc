#include "launcher/train/training_batches.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Samples whose first target is their index.
class CountedSamples final : public Dataset {
 public:
  std::int64_t num_samples() const override { return 1000; }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override {
    HostBatch batch{.input_shape = {count}, .target_shape = {count}};
    for (std::int64_t i = first; i < first + count; ++i)
      batch.targets.push_back(static_cast<std::int32_t>(i));
    return batch;
  }
  HostBatch read_sequential(std::int64_t, std::int64_t) const override { return {}; }
};

TEST(TrainingBatches, EachRankGetsItsRunOfEveryStep) {
  const BatchLayout layout{.global_batch = 12, .micro_batch = 2, .data_ranks = 3};
  for (int rank = 0; rank < 3; ++rank) {
    TrainingBatches batches({.dataset = std::make_shared<CountedSamples>(),
                             .batch = layout,
                             .data_rank = rank,
                             .first_step = 4,
                             .first_sample = 31,  // after steps with other batch sizes
                             .num_steps = 7});
    const BatchSource source = batches.source();
    for (std::int64_t step = 4; step < 7; ++step) {
      for (std::int64_t m = 0; m < 2; ++m) {
        const auto first = static_cast<std::int32_t>(31 + (step - 4) * 12 + rank * 4 + m * 2);
        EXPECT_EQ(source(rank * 4 + m * 2, 2).targets, (std::vector<std::int32_t>{first, first + 1}));
      }
    }
    EXPECT_THROW(source(0, 2), Error);  // the run has no further step
  }
}

}  // namespace
}  // namespace trireme
