// Engine::leave_out_steps: the effects of a left-out step, and that they are the same on all layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/optimizer_jobs.h"

namespace trireme::testing {
namespace {

constexpr std::int64_t kSteps = 6;

// Depends on numbers of the step, so that a different result on another rank would show.
bool is_left_out(float loss, float grad_norm, std::vector<float>& seen) {
  seen.push_back(loss);
  seen.push_back(grad_norm);
  const auto step = static_cast<std::int64_t>(seen.size() / 2);
  return step == 2 || step == 4 || step == 5;
}

struct Course {
  std::vector<float> seen;  // loss and norm of each step, as passed by the engine
  std::vector<std::uint64_t> hashes;
  std::vector<bool> left_out;
  LossScaleState state;
  bool operator==(const Course&) const = default;
};

Course train_leaving_out(const OptimizerJob& job, PipelineLayout layout) {
  layout.precision = job.precision;
  std::vector<Course> courses(static_cast<std::size_t>(layout.ranks()));
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(layout.model()), comm, job.options(layout));
    Course& mine = courses[static_cast<std::size_t>(comm->rank())];
    engine.leave_out_steps([&](float loss, float norm) { return is_left_out(loss, norm, mine.seen); });
    mine.hashes.push_back(engine.state_hash());
    while (engine.steps_done() < kSteps) {
      const StepResult result = train(engine, layout, engine.steps_done() + 1);
      EXPECT_EQ(result.loss, mine.seen[mine.seen.size() - 2]);
      EXPECT_EQ(result.grad_norm, mine.seen.back());
      EXPECT_EQ(result.skipped, result.left_out());
      EXPECT_EQ(result.skipped_in_a_row, 0);
      mine.left_out.push_back(result.left_out());
      mine.hashes.push_back(engine.state_hash());
    }
    mine.state = engine.loss_scale_state();
  });
  for (const Course& course : courses) EXPECT_TRUE(course == courses[0]) << layout.to_string();
  return courses[0];
}

const OptimizerJob kAdamW{.optimizer = {.weight_decay = 0.1f}, .ema = 0.9f};
const OptimizerJob kScaled{.optimizer = {.weight_decay = 0.1f},
                           .precision = Precision(PrecisionMode::kFp16),
                           .loss_scale = {.kind = LossScaleConfig::Kind::kDynamic, .initial = 1024.0f}};

TEST(LeftOutSteps, ChangeNothingButTheNumberOfTheStep) {
  for (const OptimizerJob& job : {kAdamW, kScaled}) {
    const Course course = train_leaving_out(job, {});
    EXPECT_THAT(course.left_out, ::testing::ElementsAre(false, true, false, true, true, false));
    for (std::size_t i = 0; i < course.left_out.size(); ++i) {
      EXPECT_EQ(course.hashes[i + 1] == course.hashes[i], course.left_out[i]) << "step " << i + 1;
    }
    EXPECT_EQ(course.state.updates, kSteps - 3);  // AdamW's t
    EXPECT_EQ(course.state.skipped_in_a_row, 0);
    if (job.loss_scale.kind != LossScaleConfig::Kind::kOff) {
      EXPECT_EQ(course.state.scale, 1024.0f);
      EXPECT_EQ(course.state.clean_steps, kSteps - 3);
    }
    // The data advanced: the loss of a step after a left-out one is of other samples.
    EXPECT_NE(course.seen[2 * 4], course.seen[2 * 3]);
  }
}

TEST(LeftOutSteps, AreTheSameOnEveryLayout) {
  const std::vector<PipelineLayout> layouts = {{.data = 2},
                                               {.data = 3},
                                               {.data = 4, .zero = 1},
                                               {.data = 2, .zero = 2},
                                               {.data = 2, .zero = 3, .recompute = 2},
                                               {.stages = 2, .data = 2},
                                               {.stages = 3, .schedule = PipelineSchedule::kZeroBubbleH1}};
  for (const OptimizerJob& job : {kAdamW, kScaled}) {
    const Course one = train_leaving_out(job, {});
    for (const PipelineLayout& layout : layouts) {
      EXPECT_TRUE(train_leaving_out(job, layout) == one) << layout.to_string();
    }
  }
}

TEST(LeftOutSteps, OfNoneAreTheStepsOfARunThatDoesNotAsk) {
  Engine asks(build_gpt(PipelineLayout{}.model()), LocalWorld(1).communicator(0), PipelineLayout{}.options());
  Engine does_not(build_gpt(PipelineLayout{}.model()), LocalWorld(1).communicator(0),
                  PipelineLayout{}.options());
  asks.leave_out_steps([](float, float) { return false; });
  train(asks, {}, 3);
  train(does_not, {}, 3);
  EXPECT_EQ(asks.state_hash(), does_not.state_hash());
}

TEST(LeftOutSteps, EndWithTheirFunction) {
  Engine engine(build_gpt(PipelineLayout{}.model()), LocalWorld(1).communicator(0),
                PipelineLayout{}.options());
  engine.leave_out_steps([](float, float) { return true; });
  EXPECT_TRUE(train(engine, {}, 1).left_out());
  engine.leave_out_steps({});
  EXPECT_FALSE(train(engine, {}, 2).left_out());
}

TEST(ObservedLosses, AreThePartsOfTheStepsLoss) {
  Engine engine(build_gpt(PipelineLayout{}.model()), LocalWorld(1).communicator(0),
                PipelineLayout{}.options());
  std::vector<float> losses;
  engine.observe_losses([&](int micro_batch, float loss) {
    EXPECT_EQ(micro_batch, std::ssize(losses));
    losses.push_back(loss);
  });
  const StepResult result = train(engine, {}, 1);
  ASSERT_EQ(std::ssize(losses), engine.batch().per_rank());
  EXPECT_GT(losses.size(), 1u);
  EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0), result.loss, 1e-6 * result.loss);
}

}  // namespace
}  // namespace trireme::testing
