#include "parallel/foresee/plan_simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/plan/planner.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

const std::vector<BlockTime> kBlocks = {{"embedding", 1, 2}, {"blocks.0", 3, 5}, {"head", 2, 7}};

TEST(PlanSimulate, OneStageTakesTheTimeOfItsBlocks) {
  const BatchLayout batch{.global_batch = 12, .micro_batch = 2, .data_ranks = 3};
  const Timeline timeline =
      simulate_plan(plan_training_step(3, {{Axis::kData, 3}}, batch), {.blocks = kBlocks});
  EXPECT_EQ(timeline.num_ranks, 3);
  EXPECT_EQ(timeline.duration_ms(), 2 * (6 + 14));
  EXPECT_EQ(timeline.bubble_share(), 0.0);
  EXPECT_EQ(timeline.spans[3].label,
            "Forward unit 1 (blocks.0) micro-batch 0");  // 3 ranks have one earlier action each
  const Timeline merged = merge_neighbours(timeline);
  ASSERT_EQ(merged.spans.size(), 3u * 2 * 2);  // ranks, micro-batches, forward and backward
  EXPECT_EQ(merged.spans[0].label,
            "Forward unit 0 (embedding) micro-batch 0 ... Forward unit 2 (head) micro-batch 0");
  EXPECT_EQ(merged.spans[0].end_ms, 6);
  EXPECT_EQ(merged.busy_ms(2), timeline.busy_ms(2));
}

TEST(PlanSimulate, RecomputeRunsForwardAgain) {
  const BatchLayout batch{.global_batch = 1, .micro_batch = 1, .data_ranks = 1};
  const StepPlan plan = plan_training_step(3, {{Axis::kData, 1}}, batch, {.layout = {.recompute_every = 2}});
  const Timeline timeline = simulate_plan(plan, {.blocks = kBlocks});
  EXPECT_EQ(timeline.duration_ms(), 6 + 14 + 4);  // the first two blocks run again, the last segment does not
  double recompute = 0;
  for (const TimelineSpan& span : timeline.spans) {
    if (span.spent == TimeSpent::kRecompute) recompute += span.end_ms - span.start_ms;
  }
  EXPECT_EQ(recompute, 4);
}

// A plan of one unit per stage from a schedule.
StepPlan plan_of(const std::vector<std::vector<PipelineTask>>& tasks) {
  const int p = static_cast<int>(tasks.size());
  StepPlan plan{.num_units = p, .ranks = std::vector<RankPlan>(tasks.size())};
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Action>& actions = plan.ranks[static_cast<std::size_t>(rank)].actions;
    const auto add = [&](ActionKind kind, int micro_batch, int peer) {
      actions.push_back({.kind = kind, .unit = rank, .micro_batch = micro_batch, .peer = peer});
    };
    for (const PipelineTask& task : tasks[static_cast<std::size_t>(rank)]) {
      const int i = task.micro_batch;
      if (task.kind == PipelineTask::Kind::kForward) {
        if (rank > 0) add(ActionKind::kRecvActivation, i, rank - 1);
        add(ActionKind::kForward, i, -1);
        if (rank + 1 < p) add(ActionKind::kSendActivation, i, rank + 1);
      } else {
        if (rank + 1 < p) add(ActionKind::kRecvGradient, i, rank + 1);
        add(ActionKind::kBackward, i, -1);
        if (rank > 0) add(ActionKind::kSendGradient, i, rank - 1);
      }
    }
    actions.push_back({.kind = ActionKind::kReduceLoss});
  }
  return plan;
}

// A rank's sends and receives in the order of its schedule take the same time as the planner's.
TEST(PlanSimulate, StagesTakeWhatTheirScheduleTakes) {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    const PlanTimes times{.blocks = kBlocks, .send_ms = 0.5};
    const Timeline by_hand = simulate_plan(plan_of(pipeline_tasks(schedule, 3, 1, 5)), times);
    const Timeline planned = simulate_plan(plan_training_step(3, {{Axis::kPipeline, 3}}, {.global_batch = 5},
                                                              {.layout = {.schedule = schedule}}),
                                           times);
    EXPECT_EQ(by_hand.duration_ms(), planned.duration_ms());
    EXPECT_DOUBLE_EQ(by_hand.bubble_share(), planned.bubble_share());
    EXPECT_EQ(by_hand.spans.size(), 3u * 5 * 2 + 2 * 2 * 5);  // forwards, backwards, sends
  }
}

// 1F1B with stages of 3, 8 and 9 ms, found by hand: the last stage is never idle between its first forward
// and its last backward.
TEST(PlanSimulate, TheSlowestStageSetsThePace) {
  const StepPlan plan = plan_training_step(3, {{Axis::kPipeline, 3}}, {.global_batch = 50});
  EXPECT_EQ(simulate_plan(plan, {.blocks = kBlocks, .send_ms = 0.5}).duration_ms(),
            (1 + 0.5 + 3 + 0.5) + 50 * 9 + (0.5 + 5 + 0.5 + 2));
}

TEST(PlanSimulate, TheGradientOfWeightsIsAKindOfItsOwn) {
  const StepPlan plan = plan_training_step(3, {{Axis::kPipeline, 3}}, {.global_batch = 4},
                                           {.layout = {.schedule = PipelineSchedule::kZeroBubbleH1}});
  const Timeline timeline = simulate_plan(plan, {.blocks = kBlocks});
  double input_ms = 0, weight_ms = 0;
  for (const TimelineSpan& span : timeline.spans) {
    if (span.spent == TimeSpent::kBackward) input_ms += span.end_ms - span.start_ms;
    if (span.spent == TimeSpent::kBackwardWeight) weight_ms += span.end_ms - span.start_ms;
  }
  EXPECT_EQ(input_ms, 4 * (2 + 5 / 2.0 + 7 / 2.0));  // the first stage's backward has one part
  EXPECT_EQ(weight_ms, 4 * (5 / 2.0 + 7 / 2.0));
}

TEST(PlanSimulate, NamesRanksAndActionsOfAPlanThatBlocks) {
  StepPlan plan = plan_of(pipeline_tasks(PipelineSchedule::kGpipe, 3, 1, 1));
  std::erase_if(plan.ranks[0].actions, [](const Action& a) { return a.kind == ActionKind::kSendActivation; });
  try {
    simulate_plan(plan, {.blocks = kBlocks});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        ::testing::HasSubstr("the plan blocks: rank 0 in Backward unit 0 (embedding) micro-batch 0; rank 1 "
                             "in Forward unit 1 (blocks.0) micro-batch 0; rank 2 in Forward unit 2"));
  }
}

/// Every unit takes 1 ms forward and 2 ms backward, and an exchange of gradients `exchange_ms`.
ActionTimes times_with_exchange(double exchange_ms, double overlap) {
  return {.unit_names = {"a", "b"},
          .of = [exchange_ms](int, const Action& action) -> ActionTime {
            if (action.kind == ActionKind::kForward) return {.compute_ms = 1};
            if (action.kind == ActionKind::kBackward) return {.compute_ms = 2};
            if (action.kind == ActionKind::kReduceGrad) return {.exchange_ms = exchange_ms};
            return {.exchange_ms = 0.0};
          },
          .overlap = overlap};
}

TEST(PlanSimulate, AnExchangeOverlapsWhatFollowsAndTheNormWaitsForIt) {
  const BatchLayout batch{.global_batch = 2, .micro_batch = 1, .data_ranks = 2};
  const StepPlan plan = plan_training_step(2, {{Axis::kData, 2}}, batch);
  // Forward 2, backward 2 + 2; the gradients of b are exchanged during the backward of a, then the gradients
  // of a.
  EXPECT_DOUBLE_EQ(simulate_plan(plan, times_with_exchange(1.5, 1)).end_ms(), 6 + 1.5);
  EXPECT_DOUBLE_EQ(simulate_plan(plan, times_with_exchange(5, 1)).end_ms(), 4 + 2 * 5);
  EXPECT_DOUBLE_EQ(simulate_plan(plan, times_with_exchange(1.5, 0)).end_ms(), 6 + 2 * 1.5);
}

TEST(PlanSimulate, AnExchangeBeginsWhenTheLastRankIsThere) {
  const BatchLayout batch{.global_batch = 2, .micro_batch = 1, .data_ranks = 2};
  const StepPlan plan = plan_training_step(2, {{Axis::kData, 2}}, batch);
  ActionTimes times = times_with_exchange(1, 1);
  times.of = [of = times.of](int rank, const Action& action) {
    ActionTime time = of(rank, action);
    if (rank == 1) time.compute_ms *= 2;
    return time;
  };
  const Timeline timeline = simulate_plan(plan, times);
  EXPECT_DOUBLE_EQ(timeline.end_ms(), 12 + 1);
  EXPECT_DOUBLE_EQ(timeline.busy_ms(0), 6);
}

}  // namespace
}  // namespace trireme
