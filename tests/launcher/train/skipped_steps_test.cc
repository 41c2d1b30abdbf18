#include "launcher/train/skipped_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const float kNan = std::nanf("");
const NonFiniteGradient kCulprit{
    .block = "blocks.1", .parameter = "blocks.1.mlp.up.weight", .micro_batch = 3, .rank = 2};

PrecisionSection section(const char* mode, const char* loss_scale = "dynamic") {
  return {.mode = from_word<PrecisionMode>(mode),
          .loss_scale = from_word<LossScaleChoice>(loss_scale),
          .max_skips = 5};
}

StepResult skipped(float scale, std::int32_t in_a_row = 1) {
  return {.step = 7,
          .loss = 2.0f,
          .grad_norm = kNan,
          .loss_scale = scale,
          .skipped = true,
          .skipped_in_a_row = in_a_row};
}

TEST(SkippedSteps, TheUpdatesOfARunAreCounted) {
  EXPECT_EQ(describe_updates(12, 12), "");
  EXPECT_EQ(describe_updates(12, 5), " with 5 updates (7 steps were skipped)");
  EXPECT_EQ(describe_updates(2, 1), " with 1 update (1 step was skipped)");
}

TEST(SkippedSteps, ARunWithoutAnUpdateSaysWhatToDo) {
  EXPECT_THAT(
      describe_no_update(12, {.scale = 2e8f}, section("fp16")),
      AllOf(HasSubstr("no update was made: all 12 steps were skipped, and the loss scale is 200000000 now"),
            HasSubstr("lower precision.scale_init = 65536"), HasSubstr("checkpoint.resume = \"never\"")));
  EXPECT_THAT(describe_no_update(12, {.scale = 1e9f}, section("fp16", "1000000000")),
              HasSubstr("a smaller precision.loss_scale, or \"dynamic\""));
  EXPECT_THAT(describe_no_update(12, {.scale = 1}, section("fp16")),
              HasSubstr("overflows fp16 without loss scaling"));
}

TEST(SkippedSteps, AtTheEndTheLossItselfDecides) {
  EXPECT_EQ(reason_to_fail_at_end(skipped(1024), section("fp16")), "");
  StepResult broken = skipped(1024);
  for (const float loss : {kNan, INFINITY}) {
    broken.loss = loss;
    EXPECT_THAT(reason_to_fail_at_end(broken, section("fp16")),
                AllOf(HasSubstr("the loss of the last step is"), HasSubstr("optimizer.lr")));
  }
}

TEST(SkippedSteps, WithoutAScaleTheFirstOneEndsTheJob) {
  for (const char* mode : {"fp32", "tf32", "bf16"}) {
    EXPECT_THAT(reason_to_stop(skipped(1), section(mode)),
                AllOf(HasSubstr("the gradient norm nan"), HasSubstr("a lower optimizer.lr")));
    EXPECT_THAT(reason_to_stop({.loss = INFINITY, .grad_norm = 1}, section(mode)),
                HasSubstr("the loss is inf"));
    EXPECT_EQ(reason_to_stop({.loss = 2, .grad_norm = 1}, section(mode)), "");
  }
  EXPECT_THAT(reason_to_stop(skipped(1), section("fp16", "off")),
              HasSubstr("set precision.loss_scale = \"dynamic\""));
  EXPECT_EQ(reason_to_stop({.loss = 2, .grad_norm = 1}, section("fp16", "off")), "");
}

TEST(SkippedSteps, WithAScaleTooManyInARowDo) {
  for (const char* scale : {"dynamic", "1024"}) {
    EXPECT_EQ(reason_to_stop(skipped(1024, 4), section("fp16", scale)), "");
    EXPECT_THAT(reason_to_stop(skipped(1024, 5), section("fp16", scale)),
                HasSubstr("5 consecutive steps were skipped (precision.max_skips)"));
  }
}

// At a scale above 1, the scale alone may cause the overflow.
TEST(SkippedSteps, TheNetworkIsBlamedForWhatItDoesOnItsOwn) {
  PrecisionSection precision = section("fp16");
  precision.scale_init = 5e11;
  const std::string falling = reason_to_stop(skipped(1 << 30, 5), precision);
  EXPECT_THAT(falling, AllOf(HasSubstr("the scale is still falling, and would reach 1 after 29 more"),
                             HasSubstr("raise precision.max_skips = 5"),
                             HasSubstr("lower precision.scale_init = 500000000000")));
  EXPECT_THAT(falling, ::testing::Not(HasSubstr("the network")));
  precision.scale_backoff = 0.25;
  EXPECT_THAT(reason_to_stop(skipped(1 << 30, 5), precision), HasSubstr("would reach 1 after 14 more"));
  precision.scale_backoff = 0.5;
  EXPECT_THAT(reason_to_stop(skipped(2, 5), precision), HasSubstr("would reach 1 in the next step"));
  precision.min_scale = 1e-6;
  for (const float scale : {1.0f, 0.25f}) {
    EXPECT_THAT(reason_to_stop(skipped(scale, 5), precision),
                HasSubstr("the network overflows fp16 without loss scaling"));
  }
  precision.min_scale = 1024;
  EXPECT_THAT(
      reason_to_stop(skipped(1024), precision),
      HasSubstr("below precision.min_scale = 1024: lower precision.min_scale, as the scale may fall to 1"));
  precision.min_scale = 1;
  EXPECT_THAT(reason_to_stop(skipped(1), precision),
              HasSubstr("the network overflows fp16 without loss scaling"));
}

TEST(SkippedSteps, OrAScaleBelowItsFloor) {
  PrecisionSection precision = section("fp16");
  precision.min_scale = 16;
  EXPECT_EQ(reason_to_stop(skipped(32), precision), "");
  EXPECT_THAT(reason_to_stop(skipped(16), precision),
              HasSubstr("falls from 16 below precision.min_scale = 16"));
  precision.loss_scale = {.kind = LossScaleConfig::Kind::kStatic, .scale = 8};  // a fixed scale has no floor
  EXPECT_EQ(reason_to_stop(skipped(8), precision), "");
}

TEST(SkippedSteps, AreDescribed) {
  EXPECT_EQ(
      describe_skip(skipped(512), section("fp16"), kCulprit),
      "step 7 is skipped, loss scale 512 -> 256: the gradient of parameter 'blocks.1.mlp.up.weight' of block "
      "'blocks.1', micro-batch 3, on rank 2 is not finite");
  EXPECT_EQ(describe_skip(skipped(512), section("fp16", "512"), {}),
            "step 7 is skipped, loss scale 512: a gradient is not finite");
  EXPECT_THAT(describe_skip(skipped(1), section("bf16"), NonFiniteGradient{.block = "b", .parameter = "b.w"}),
              HasSubstr("step 7 is skipped: the gradient of parameter 'b.w' of block 'b', in the sum over"));
}

}  // namespace
}  // namespace trireme
