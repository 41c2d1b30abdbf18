// 16-bit working copies with a center: see [Note: centered working copies].
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/ops/linear.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 4;

const ParamSlot& slot_of(const Engine& engine, const ParamUse& use) {
  return engine.layout()
      .groups[static_cast<std::size_t>(use.group)]
      .slots[static_cast<std::size_t>(use.slot)];
}

// A gain's working copy is the master minus 1, to the eight bits of bf16; the largest difference is `update`.
// Collective.
void check_gain(Engine& engine, const ParamUse& use, float update) {
  const ParamSlot& slot = slot_of(engine, use);
  const Tensor master = engine.parameters().whole(use.group, engine.parameters().master(use.group));
  const auto gains = engine.context().to_host(master.slice(slot.offset, slot.shape));
  const auto working = engine.context().to_host(engine.parameters().value(use));
  float largest = 0;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    const float difference = gains[i] - 1.0f;
    largest = std::max(largest, std::abs(difference));
    EXPECT_NEAR(working[i], difference, 0x1p-8f * std::abs(difference)) << slot.name;
  }
  EXPECT_NEAR(largest, update, 0.1f * update) << slot.name;
}

// Checks all gains, and that no other parameter has a center.
void check_gains(Engine& engine, float update) {
  int gains = 0;
  for (const std::vector<ParamUse>& uses : engine.layout().uses) {
    for (const ParamUse& use : uses) {
      const ParamSlot& slot = slot_of(engine, use);
      const bool is_gain = slot.name.find("norm") != std::string::npos && slot.name.ends_with("weight");
      EXPECT_EQ(slot.center, is_gain ? 1.0f : 0.0f) << slot.name;
      if (!is_gain) continue;
      ++gains;
      check_gain(engine, use, update);
    }
  }
  EXPECT_EQ(gains, 5);
}

// In bf16 without a center, an update of 1e-3 would not change a gain of 1. Ranks that do not own the gain
// see it, too.
TEST(WorkingCopies, FollowSmallUpdatesOfGains) {
  const GptConfig config = testing::tiny_gpt_config();
  for (const PrecisionMode mode : {PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    for (const ZeroStage zero : {ZeroStage::kNone, ZeroStage::kOptimizer}) {
      run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(build_gpt(config), comm,
                      {.global_batch = kGlobalBatch, .layout = {.zero = zero}, .precision = Precision(mode)});
        check_gains(engine, 0.0f);
        engine.step(testing::token_source(config.vocab, config.seq_len, 0), kGlobalBatch * config.seq_len,
                    1e-3);
        check_gains(engine, 1e-3f);  // Adam's first update has the size of the learning rate
        engine.parameters().settle();
        engine.parameters().refresh_working();
        check_gains(engine, 1e-3f);
      });
    }
  }
}

TEST(WorkingCopies, OpsThatDoNotAddTheCenterRefuseIt) {
  struct Centered final : Block {
    Centered() : Block("block") { weight = declare({.name = "weight", .shape = {32, 32}, .center = 1.0f}); }
    Activations forward(Context& ctx, const Activations& input, const Batch&) const override {
      return {ops::linear(ctx, input.at(0), weight)};
    }
    ParamRef weight;
  };
  const GptConfig config = testing::tiny_gpt_config();
  BlockList blocks = build_gpt(config);
  blocks.insert(blocks.begin() + 1, std::make_unique<Centered>());
  Engine engine(std::move(blocks), LocalWorld(1).communicator(0),
                {.precision = Precision(PrecisionMode::kBf16)});
  EXPECT_NE(testing::message_of([&] {
              engine.step(testing::token_source(config.vocab, config.seq_len, 0), 1, 1e-3);
            }).find("leave ParameterSpec::center at 0"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
