#include "parallel/plan/timeline.h"

#include <gtest/gtest.h>

#include "parallel/foresee/plan_simulate.h"
#include "parallel/plan/planner.h"

namespace trireme {
namespace {

TEST(Timeline, CountsWhatRanksComputeAgainstTheWholeTime) {
  const Timeline timeline{
      .num_ranks = 2,
      .spans = {{.rank = 0, .label = "a", .start_ms = 2, .end_ms = 6},
                {.rank = 0, .spent = TimeSpent::kExchange, .label = "b", .start_ms = 6, .end_ms = 8},
                {.rank = 1, .spent = TimeSpent::kBackward, .label = "c", .start_ms = 8, .end_ms = 12}}};
  EXPECT_EQ(timeline.start_ms(), 2);
  EXPECT_EQ(timeline.duration_ms(), 10);
  EXPECT_EQ(timeline.busy_ms(0), 4);
  EXPECT_DOUBLE_EQ(timeline.bubble_share(), 0.6);
  EXPECT_EQ(Timeline{}.duration_ms(), 0);
  EXPECT_EQ(Timeline{}.bubble_share(), 0);
}

TEST(Timeline, OfASimulation) {
  const StageCounts counts{.num_units = 4, .pipeline = 2, .chunks = 2};
  const StepPlan plan = plan_training_step(
      4, {{Axis::kPipeline, 2}}, {.global_batch = 4},
      {.layout = {.schedule = PipelineSchedule::kInterleaved}, .stages = StageMap::even(counts)});
  const Timeline timeline =
      simulate_plan(plan, {.blocks = std::vector<BlockTime>(4, {"block", 1, 2}), .send_ms = 0.25});
  EXPECT_EQ(timeline.num_ranks, 2);
  int sends = 0;
  for (const TimelineSpan& span : timeline.spans) {
    if (span.spent != TimeSpent::kExchange) continue;
    ++sends;
    EXPECT_EQ(span.end_ms - span.start_ms, 0.25);
  }
  EXPECT_EQ(sends, 2 * 3 * 4);  // three boundaries, both directions, four micro-batches
  EXPECT_EQ(timeline.spans[0].label, "Forward unit 0 (block) micro-batch 0");
  EXPECT_EQ(timeline.spans[1].label, "SendActivation unit 0 (block) micro-batch 0 peer 1");
  EXPECT_EQ(timeline.spans.back().chunk, 0);
  EXPECT_EQ(timeline.spans.back().rank, 0);  // the last to wait for a gradient
}

}  // namespace
}  // namespace trireme
