#include "runtime/data/batch_parts.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(BatchParts, AreJoinedWithAllTheirTensors) {
  const auto part = [](float first, std::int64_t count) {
    HostBatch batch;
    batch.input_shape = {count, 1};
    batch.target_shape = {count, 2};
    batch.target_dtype = DType::kFloat32;
    batch.condition_shape = {count, 1, 1};
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = first + static_cast<float>(i);
      batch.number_targets.insert(batch.number_targets.end(), {value, -value});
      batch.target_weights.push_back(value + 0.25f);
      batch.timesteps.push_back(value + 0.5f);
      batch.condition.push_back(value + 0.75f);
      batch.classes.push_back(static_cast<std::int32_t>(value));
    }
    return batch;
  };
  const HostBatch all = part(3, 5);
  const HostBatch joined = join_batches({part(3, 2), part(5, 1), part(6, 2)});
  EXPECT_EQ(joined.target_shape, (Shape{5, 2}));
  EXPECT_EQ(joined.target_dtype, DType::kFloat32);
  EXPECT_EQ(joined.weights_shape(), Shape{5});
  EXPECT_EQ(joined.condition_shape, (Shape{5, 1, 1}));
  EXPECT_EQ(joined.number_targets, all.number_targets);
  EXPECT_EQ(joined.target_weights, all.target_weights);
  EXPECT_EQ(joined.timesteps, all.timesteps);
  EXPECT_EQ(joined.condition, all.condition);
  EXPECT_EQ(joined.classes, all.classes);
}

}  // namespace
}  // namespace trireme
