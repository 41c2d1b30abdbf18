#include "parallel/block_work.h"

#include <gtest/gtest.h>

#include "models/gpt.h"
#include "models/resnet.h"

namespace trireme {
namespace {

// A token costs 2 operations for each weight of a product, and attention 2 * 2 * width for each token it
// sees, half of the context on average.
TEST(BlockWork, IsThatOfTheFormulas) {
  const double layers = 3, width = 32, vocab = 128, context = 16;
  const BlockList blocks =
      build_gpt({.layers = 3, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16, .dropout = 0.1f});
  const auto work = count_block_work(blocks, {.input = {16}, .target = {16}});
  ASSERT_EQ(work.size(), layers + 2);
  EXPECT_EQ(work[0], 0.0);
  for (int layer = 1; layer <= 3; ++layer) {
    EXPECT_EQ(work[static_cast<std::size_t>(layer)],
              context * (2 * 12 * width * width + 4 * width * context / 2));
  }
  EXPECT_EQ(work[4], context * 2 * width * vocab);
}

// 1.82e9 multiply-adds for an image of 224 x 224 (He et al. 2016, table 1: 1.8e9).
TEST(BlockWork, OfResNet18IsThePublishedNumber) {
  const BlockList blocks = build_resnet(*find_resnet_config("resnet18"));
  double sum = 0;
  for (const double operations :
       count_block_work(blocks, {.input = {224, 224, 3}, .input_dtype = DType::kFloat32, .target = {}})) {
    EXPECT_GT(operations, 0.0);
    sum += operations;
  }
  EXPECT_NEAR(sum / 2, 1.814e9, 0.01e9);
}

}  // namespace
}  // namespace trireme
