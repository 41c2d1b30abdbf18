#include "parallel/foresee/block_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "models/gpt.h"
#include "models/vit.h"
#include "parallel/layout/stage_cut.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

// Sleeps, and returns its input.
class Sleeper final : public Block {
 public:
  Sleeper(std::string name, int ms) : Block(std::move(name)), ms_(ms) {}
  Activations forward(Context&, const Activations& input, const Batch&) const override {
    if (ms_ < 0) throw Error(ErrorCode::kRuntime, "cannot sleep");
    std::this_thread::sleep_for(std::chrono::milliseconds(ms_));
    return input;
  }

 private:
  int ms_;
};

const GptConfig kGpt = {.layers = 3, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};

HostBatch batch() {
  return testing::token_source(kGpt.vocab, kGpt.seq_len, 0)(0, 2);
}

TEST(BlockTimes, MeasuresEachBlockAndTwinsOnce) {
  BlockList blocks = build_gpt(kGpt);
  blocks.insert(blocks.begin() + 2, std::make_unique<Sleeper>("sleeper", 5));
  const auto times = measure_block_times(blocks, batch(), {.device = {DeviceType::kCpu, 0}, .repeats = 2});
  ASSERT_EQ(times.size(), blocks.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].block, blocks[i]->name());
    EXPECT_GT(times[i].forward_ms, 0);
    EXPECT_GT(times[i].backward_ms, 0);
  }
  EXPECT_GE(times[2].forward_ms, 5);
  EXPECT_LT(times[2].backward_ms, 5);
  // blocks.1 and blocks.2 are neighbours: one measurement. Another block separates them from blocks.0.
  EXPECT_EQ(times[3].forward_ms, times[4].forward_ms);
  EXPECT_EQ(times[3].backward_ms, times[4].backward_ms);
}

TEST(BlockTimes, BlocksOfAnotherVariantAreNoTwins) {
  const BlockList vit = build_vit(
      {.layers = 3, .hidden = 32, .heads = 2, .ffn = 64, .patch = 8, .image_size = 16, .classes = 3});
  EXPECT_TRUE(is_twin(*vit[1], *vit[2]));
  EXPECT_FALSE(is_twin(*vit[2], *vit[3]));  // it returns only the class token
  EXPECT_EQ(kinds_of(vit, {}), (std::vector<int>{0, 1, 1, 3, 4}));
  const BlockList deep = build_vit({.layers = 4,
                                    .hidden = 32,
                                    .heads = 2,
                                    .ffn = 64,
                                    .patch = 8,
                                    .image_size = 16,
                                    .classes = 3,
                                    .stochastic_depth = 0.1f});
  EXPECT_EQ(kinds_of(deep, {}), (std::vector<int>{0, 1, 2, 2, 4, 5}));  // none in the first
  const BlockList gpt = build_gpt(kGpt);
  EXPECT_EQ(kinds_of(gpt, {}), (std::vector<int>{0, 1, 1, 1, 4}));
  EXPECT_EQ(kinds_of(gpt, {.frozen = {"blocks.1.*"}}), (std::vector<int>{0, 1, 2, 1, 4}));
}

TEST(BlockTimes, WorkInEveryPrecision) {
  for (const auto mode : {PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    const auto times =
        measure_block_times(build_gpt(kGpt), batch(),
                            {.device = {DeviceType::kCpu, 0}, .precision = Precision(mode), .repeats = 1});
    EXPECT_EQ(times.size(), 5u);
  }
}

TEST(BlockTimes, NeedTheMemoryOfOneBlock) {
  GptConfig deep = kGpt;
  deep.layers = 40;
  const BlockList blocks = build_gpt(deep);
  std::int64_t parameters = 0;
  for (const double elems : parameter_costs(blocks)) parameters += static_cast<std::int64_t>(elems);
  const auto limit = std::int64_t{1} << 20;
  ASSERT_GT(parameters * 4, limit);  // the model does not fit
  EXPECT_EQ(measure_block_times(blocks, batch(),
                                {.device = {DeviceType::kCpu, 0}, .memory_limit = limit, .repeats = 1})
                .size(),
            blocks.size());
}

TEST(BlockTimes, NameTheBlockThatFails) {
  BlockList blocks = build_gpt(kGpt);
  blocks.insert(blocks.begin() + 1, std::make_unique<Sleeper>("broken", -1));
  try {
    measure_block_times(blocks, batch(), {.device = {DeviceType::kCpu, 0}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("measuring block 'broken': cannot sleep"));
  }
}

TEST(BlockTimes, AreCostsOfForwardAndBackward) {
  EXPECT_EQ(time_costs({{"a", 1, 2}, {"b", 2, 4}, {"c", 4, 8}}), (std::vector<double>{3, 6, 12}));
}

// The result of stage_cut_bench for large models, with the profile's own times.
TEST(BlockTimes, AMeasuredCutsSlowestStageIsShorterThanOfEqualNumbersWithAHeavyHead) {
  GptConfig config = kGpt;
  config.layers = 6;
  config.vocab = 4096;
  const BlockList blocks = build_gpt(config);
  const HostBatch tokens = testing::token_source(config.vocab, config.seq_len, 0)(0, 2);
  const auto costs =
      time_costs(measure_block_times(blocks, tokens, {.device = {DeviceType::kCpu, 0}, .repeats = 2}));
  const auto slowest = [&](const std::vector<double>& cut_by) {
    return std::ranges::max(chunk_costs(cut_evenly(cut_by, 4), costs));
  };
  EXPECT_LT(slowest(costs), slowest(std::vector<double>(blocks.size(), 1.0)));
}

}  // namespace
}  // namespace trireme
