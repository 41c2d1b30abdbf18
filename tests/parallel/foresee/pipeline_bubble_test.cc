// The published figures of pipeline schedules: makespan, pipeline bubble and micro-batches alive, for the
// planner's plans, played with equal stages of one block per chunk.
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/foresee/plan_simulate.h"
#include "parallel/plan/planner.h"

namespace trireme {
namespace {

struct Equal {
  int stages = 1, chunks = 1, micro_batches = 1;
  double forward = 1, input = 1, weight = 1;  // ms per chunk
  double send = 0;
};

StepPlan plan_of(PipelineSchedule schedule, const Equal& c) {
  const StageCounts counts{.num_units = c.stages * c.chunks, .pipeline = c.stages, .chunks = c.chunks};
  return plan_training_step(counts.num_units, {{Axis::kPipeline, c.stages}},
                            {.global_batch = c.micro_batches},
                            {.layout = {.schedule = schedule}, .stages = StageMap::even(counts)});
}

Timeline simulate(PipelineSchedule schedule, const Equal& c) {
  const BlockTime block{"block", c.forward, c.input + c.weight};
  return simulate_plan(plan_of(schedule, c), {.blocks = std::vector<BlockTime>(
                                                  static_cast<std::size_t>(c.stages * c.chunks), block),
                                              .send_ms = c.send,
                                              .weight_share = c.weight / (c.input + c.weight)});
}

std::vector<double> idle_of(const Timeline& timeline) {
  std::vector<double> idle;
  for (int rank = 0; rank < timeline.num_ranks; ++rank) {
    idle.push_back(timeline.duration_ms() - timeline.busy_ms(rank));
  }
  return idle;
}

/// Maximum number of micro-batches, over its chunks, that a rank has run forward but not completely backward.
int alive_on(const RankPlan& plan) {
  int alive = 0, most = 0;
  for (const Action& action : plan.actions) {
    if (action.kind == ActionKind::kForward) most = std::max(most, ++alive);
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) --alive;
  }
  return most;
}

// Times are small integers, and their shares are binary fractions, so sums and comparisons are exact.
const std::vector<Equal> kTimes = {{.forward = 1, .input = 1, .weight = 1},
                                   {.forward = 3, .input = 6, .weight = 2},
                                   {.forward = 7, .input = 5, .weight = 3}};
const std::vector<std::pair<int, int>> kSizes = {{4, 8}, {8, 32}, {8, 64}};  // p, m of the published figures

// Huang et al. 2019, Narayanan et al. 2021: (m + p - 1)(tf + tb), with a bubble share of (p - 1) / (m + p -
// 1).
TEST(PipelineBubble, GpipeAndOneForwardOneBackwardTakeTheirFormulas) {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    for (const auto& [p, m] : kSizes) {
      for (Equal c : kTimes) {
        c.stages = p, c.micro_batches = m;
        const Timeline found = simulate(schedule, c);
        EXPECT_EQ(found.duration_ms(), (m + p - 1) * (c.forward + c.input + c.weight));
        for (const double idle : idle_of(found)) EXPECT_EQ(idle, (p - 1) * (c.forward + c.input + c.weight));
        EXPECT_NEAR(found.bubble_share(), (p - 1.0) / (m + p - 1), 1e-14);
      }
    }
  }
}

TEST(PipelineBubble, OfThePublishedSizes) {
  const std::vector<double> over_total = {0.273, 0.179, 0.099}, over_ideal = {0.375, 0.219, 0.109};
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto [p, m] = kSizes[i];
    const auto found = simulate(PipelineSchedule::kOneForwardOneBackward, {.stages = p, .micro_batches = m});
    EXPECT_NEAR(found.bubble_share(), over_total[i], 0.0005);
    EXPECT_NEAR(idle_of(found)[0] / found.busy_ms(0), over_ideal[i], 0.0005);
  }
}

// Narayanan et al. 2021: bubble over ideal time (p - 1) / (v m). Here for any m >= p, multiple of p or not.
TEST(PipelineBubble, InterleavedTakesItsFormula) {
  std::vector<std::pair<int, int>> sizes = kSizes;
  sizes.insert(sizes.end(), {{4, 4}, {4, 5}, {4, 7}, {4, 9}, {5, 14}, {8, 15}, {8, 33}});
  for (const auto& [p, m] : sizes) {
    for (const int v : {2, 3, 4}) {
      for (Equal c : kTimes) {
        c.stages = p, c.micro_batches = m, c.chunks = v;
        const Timeline found = simulate(PipelineSchedule::kInterleaved, c);
        const double chunk = c.forward + c.input + c.weight, ideal = m * v * chunk;
        EXPECT_EQ(found.duration_ms(), ideal + (p - 1) * chunk) << p << " " << m << " " << v;
        for (const double idle : idle_of(found)) EXPECT_DOUBLE_EQ(idle / ideal, (p - 1.0) / (v * m));
      }
    }
  }
}

// Qi et al. 2023: (p - 1)(TF + TB - TW), if the weight gradient takes no longer than the other parts.
TEST(PipelineBubble, ZeroBubbleH1TakesItsFormula) {
  for (const auto& [p, m] : kSizes) {
    for (Equal c : kTimes) {
      c.stages = p, c.micro_batches = m;
      const Timeline found = simulate(PipelineSchedule::kZeroBubbleH1, c);
      EXPECT_EQ(found.duration_ms(),
                m * (c.forward + c.input + c.weight) + (p - 1) * (c.forward + c.input - c.weight));
      for (const double idle : idle_of(found)) EXPECT_EQ(idle, (p - 1) * (c.forward + c.input - c.weight));
    }
  }
}

TEST(PipelineBubble, PlansKeepThePublishedMicroBatchesAlive) {
  for (const auto& [p, m] :
       std::vector<std::pair<int, int>>{{4, 8}, {8, 32}, {8, 64}, {4, 2}, {4, 3}, {1, 5}}) {
    const Equal sizes{.stages = p, .micro_batches = m};
    const StepPlan gpipe = plan_of(PipelineSchedule::kGpipe, sizes);
    const StepPlan one = plan_of(PipelineSchedule::kOneForwardOneBackward, sizes);
    const StepPlan h1 = plan_of(PipelineSchedule::kZeroBubbleH1, sizes);
    for (int s = 0; s < p; ++s) {
      const auto rank = static_cast<std::size_t>(s);
      EXPECT_EQ(alive_on(gpipe.ranks[rank]), p == 1 ? 1 : m);  // one stage has no schedule
      EXPECT_EQ(alive_on(one.ranks[rank]), std::min(p - s, m));
      EXPECT_EQ(alive_on(h1.ranks[rank]), std::min(p, m));  // as the first stage of 1F1B
    }
    if (m % p != 0 || m <= p || p == 1) continue;
    for (const int v : {2, 4}) {
      const StepPlan found =
          plan_of(PipelineSchedule::kInterleaved, {.stages = p, .chunks = v, .micro_batches = m});
      // Korthikanti et al. 2022: p (1 + (p - 1) / (p v)) micro-batches of the whole rank, so v times that
      // number of its chunks.
      EXPECT_EQ(alive_on(found.ranks[0]), p * v + p - 1);
    }
  }
}

TEST(PipelineBubble, SendsTakeTimeButNotTheRanks) {
  const Timeline found =
      simulate(PipelineSchedule::kGpipe,
               {.stages = 2, .micro_batches = 1, .forward = 3, .input = 4, .weight = 1, .send = 10});
  EXPECT_EQ(found.duration_ms(), 3 + 10 + 3 + 5 + 10 + 5);
  EXPECT_EQ(idle_of(found)[0], 20 + 8);
  const Timeline alone = simulate(PipelineSchedule::kGpipe, {.stages = 1, .micro_batches = 2, .send = 10});
  EXPECT_EQ(alone.duration_ms(), 6);
  EXPECT_EQ(alone.bubble_share(), 0.0);
}

// The slowest stage sets the pace: warm-up and drain around m of its turns.
TEST(PipelineBubble, OfUnevenStages) {
  const StepPlan plan = plan_of(PipelineSchedule::kOneForwardOneBackward, {.stages = 2, .micro_batches = 10});
  const Timeline found = simulate_plan(plan, {.blocks = {{"short", 1, 1}, {"long", 4, 4}}});
  EXPECT_EQ(found.duration_ms(), 1 + 10 * 8 + 1);
  EXPECT_EQ(idle_of(found)[1], 2);
}

}  // namespace
}  // namespace trireme
