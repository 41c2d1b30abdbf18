#include "parallel/layout/block_work.h"

#include <gtest/gtest.h>

#include "models/gpt.h"
#include "models/resnet.h"
#include "parallel/comm/local.h"
#include "tests/support/pipeline_layout.h"

namespace trireme {
namespace {

// A token costs 2 operations for each weight of a product, and attention 2 * 2 * width for each token that it
// attends to, half of the context on average.
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

// The head of GPT-2 has the arithmetic of five blocks, and its embedding none.
TEST(BlockWork, CutsSoThatNoStageHasMuch) {
  const BlockList gpt =
      build_gpt({.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257, .seq_len = 1024});
  const SampleSpec tokens{.input = {1024}, .target = {1024}};
  EXPECT_EQ(cut_by_work(gpt, tokens, 4).bounds, (std::vector<int>{0, 5, 9, 13, 14}));
  const BlockList resnet = build_resnet(*find_resnet_config("resnet50"));
  const SampleSpec image{.input = {224, 224, 3}, .input_dtype = DType::kFloat32, .target = {}};
  EXPECT_EQ(cut_by_work(resnet, image, 4).first_units(), (std::vector<int>{5, 9, 13}));
}

// For an engine without a given cut.
TEST(BlockWork, IsWhatAnEngineCutsBy) {
  testing::PipelineLayout layout{.stages = 3};
  layout.gpt.vocab = 1024;  // a head of several blocks' arithmetic
  const EngineOptions options = layout.options();
  const BlockList blocks = build_gpt(layout.model());
  const StageMap cut = cut_by_work(blocks, *options.sample, 3);
  EXPECT_EQ(cut.first_unit(2), static_cast<int>(blocks.size()) - 1);  // the head alone
  run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
    EXPECT_EQ(Engine(build_gpt(layout.model()), comm, options).stages(), cut);
  });
}

class Copies final : public Block {
 public:
  using Block::Block;
  Activations forward(Context&, const Activations&, const Batch& batch) const override {
    return {batch.inputs};
  }
};

TEST(BlockWork, BlocksWithoutArithmeticAreCutEvenly) {
  BlockList blocks;
  for (int b = 0; b < 8; ++b) blocks.push_back(std::make_unique<Copies>(std::to_string(b)));
  EXPECT_EQ(cut_by_work(blocks, {.input = {4}, .target = {4}}, 4).first_units(), (std::vector<int>{2, 4, 6}));
}

}  // namespace
}  // namespace trireme
