// Lion: ten steps against its definition in double precision, memory, and the same state from every layout.
#include <cmath>

#include "parallel/foresee/predict.h"
#include "runtime/base/error.h"
#include "tests/support/optimizer_jobs.h"

namespace trireme::testing {
namespace {

constexpr double kLr = 1e-2, kBeta1 = 0.9f, kBeta2 = 0.99f, kDecay = 0.25f;
const OptimizerConfig kLion{
    .kind = OptimizerConfig::Kind::kLion, .weight_decay = 0.25f, .beta1 = 0.9f, .beta2 = 0.99f};
const PrecisionMode kModes[] = {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16,
                                PrecisionMode::kBf16};

// Each step starts from the engine's previous state, so that a sign flipped by rounding moves one element
// once.
TEST(Lion, TenStepsAreThoseOfItsDefinition) {
  const PipelineLayout layout;
  EngineOptions options = OptimizerJob{.optimizer = kLion}.options(layout);
  options.grad_clip = 0.0f;
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), options);
  std::int64_t elems = 0, undecided = 0, moved = 0;
  for (int i = 0; i < 10; ++i) {
    const Values moments = states_of(engine, 0);
    const ObservedStep step = observe_step(engine, layout, kLr);
    const Values next = states_of(engine, 0);
    for (const auto& [name, before] : step.before) {
      const bool matrix = !name.ends_with("bias") && name.find("norm") == std::string::npos;
      for (std::size_t e = 0; e < before.size(); ++e) {
        const double g = step.gradients.at(name)[e], m = moments.at(name)[e], p = before[e];
        ASSERT_NEAR(next.at(name)[e], kBeta2 * m + (1 - kBeta2) * g, 1e-7 + 1e-6 * std::abs(m)) << name;
        const double direction = kBeta1 * m + (1 - kBeta1) * g;
        ++elems;
        if (direction != 0 &&
            std::abs(direction) < 1e-6 * (std::abs(kBeta1 * m) + std::abs((1 - kBeta1) * g))) {
          ++undecided;
          continue;
        }
        const double sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
        const double expected = p - kLr * (matrix ? kDecay : 0.0) * p - kLr * sign;
        ASSERT_NEAR(step.after.at(name)[e], expected, 1e-6 * (1 + std::abs(p))) << name << " " << e;
        moved += sign != 0;
      }
    }
  }
  EXPECT_LT(undecided, elems / 1000);
  EXPECT_GT(moved, elems / 2);
}

// One moment instead of two: 4 bytes per element less than AdamW.
TEST(Lion, KeepsOneMoment) {
  const PipelineLayout layout{.data = 2, .zero = 1};
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  std::int64_t padded = 0;
  for (const ParamGroup& group : make_layout(*blocks).groups) {
    padded += Sharding{.ranks = 2}.piece(group.num_elems);
  }
  const auto state_of = [&](const OptimizerConfig& optimizer) {
    const EngineOptions options = OptimizerJob{.optimizer = optimizer}.options(layout);
    return predict_step(blocks, options, *options.sample, 2, 0).memory.peak[MemoryCategory::kOptimizer];
  };
  EXPECT_EQ(state_of({}) - state_of(kLion), 4 * padded);
}

TEST(Lion, EveryLayoutGivesTheSameState) {
  expect_equal_states({.optimizer = kLion}, layouts_of_whole_states());
  expect_equal_states({.optimizer = kLion}, layouts_of_shards());
}

TEST(Lion, EveryPrecisionGivesTheSameStateOnOtherLayouts) {
  for (const PrecisionMode mode : kModes) {
    OptimizerJob job{.optimizer = kLion, .precision = Precision(mode)};
    if (mode == PrecisionMode::kFp16) job.loss_scale.kind = LossScaleConfig::Kind::kDynamic;
    expect_equal_states(job, {{.data = 2, .zero = 1}, {.stages = 2, .data = 2, .zero = 3}});
  }
}

TEST(Lion, FactorsAndFrozenParametersAreThoseOfOtherOptimizers) {
  const PipelineLayout layout;
  EngineOptions options = OptimizerJob{.optimizer = kLion}.options(layout);
  options.rules = {.frozen = {"embedding*"},
                   .lr_scale = {{"head*", 4.0}},
                   .decay_scale = {{"head.weight", 2.0}, {"*", 0.0}}};
  Engine engine(build_gpt(PipelineLayout{.tied = false}.model()), LocalWorld(1).communicator(0), options);
  const ObservedStep step = observe_step(engine, layout, kLr);
  for (const auto& [name, before] : step.before) {
    if (name.starts_with("embedding")) {
      EXPECT_EQ(step.after.at(name), before) << name;
      continue;
    }
    const double lr = name.starts_with("head") ? 4 * kLr : kLr;
    const double decay = name == "head.weight" ? 2 * kDecay : 0.0;
    for (std::size_t e = 0; e < before.size(); ++e) {
      const double g = step.gradients.at(name)[e];
      const double expected = before[e] - lr * decay * before[e] - lr * (g > 0 ? 1 : g < 0 ? -1 : 0);
      ASSERT_NEAR(step.after.at(name)[e], expected, 1e-6 * (1 + std::abs(before[e]))) << name;
    }
  }
}

// A loss scale beyond fp16: the first step overflows, and only the scale changes.
TEST(Lion, ASkippedStepChangesNothing) {
  const PipelineLayout layout{.precision = Precision(PrecisionMode::kFp16)};
  const OptimizerJob job{
      .optimizer = kLion,
      .ema = 0.9f,
      .precision = layout.precision,
      .loss_scale = {
          .kind = LossScaleConfig::Kind::kDynamic, .initial = 0x1p100f, .backoff_factor = 0x1p-90f}};
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), job.options(layout));
  const std::uint64_t before = engine.state_hash();
  EXPECT_TRUE(train(engine, layout, 1).skipped);
  EXPECT_EQ(engine.state_hash(), before);
  EXPECT_FALSE(train(engine, layout, 2).skipped);
  EXPECT_NE(engine.state_hash(), before);
}

TEST(Lion, RefusesBetasOutOfRange) {
  for (const auto& [beta1, beta2] : {std::pair{1.0f, 0.99f}, {0.9f, 1.0f}, {-0.1f, 0.99f}}) {
    EXPECT_THROW(make_optimizer({.kind = OptimizerConfig::Kind::kLion, .beta1 = beta1, .beta2 = beta2}),
                 Error);
  }
}

}  // namespace
}  // namespace trireme::testing
