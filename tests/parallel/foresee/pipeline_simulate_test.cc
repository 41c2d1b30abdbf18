#include "parallel/foresee/pipeline_simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Kind = PipelineTask::Kind;

struct Equal {
  int stages = 1, chunks = 1, micro_batches = 1;
  double forward = 1, input = 1, weight = 1;  // ms of a virtual stage
  double send = 0;
};

PipelineTimes times_of(const Equal& c) {
  const StageTimes stage{
      .forward_ms = c.forward, .backward_input_ms = c.input, .backward_weight_ms = c.weight};
  return {.stages = std::vector<StageTimes>(static_cast<std::size_t>(c.stages * c.chunks), stage),
          .send_ms = c.send};
}

PipelineSimulation simulate(PipelineSchedule schedule, const Equal& c) {
  return simulate_pipeline(pipeline_tasks(schedule, c.stages, c.chunks, c.micro_batches), times_of(c));
}

// Times are small integers: sums are exact, and so are the comparisons.
const std::vector<Equal> kTimes = {{.forward = 1, .input = 1, .weight = 1},
                                   {.forward = 3, .input = 5, .weight = 2},
                                   {.forward = 7, .input = 4, .weight = 3}};
const std::vector<std::pair<int, int>> kSizes = {{4, 8}, {8, 32}, {8, 64}};  // p, m of the published figures

// Huang et al. 2019, Narayanan et al. 2021: (m + p - 1)(tf + tb), a share of (p - 1) / (m + p - 1).
TEST(PipelineSimulate, GpipeAndOneForwardOneBackwardTakeTheirFormulas) {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    for (const auto& [p, m] : kSizes) {
      for (Equal c : kTimes) {
        c.stages = p, c.micro_batches = m;
        const PipelineSimulation found = simulate(schedule, c);
        EXPECT_EQ(found.makespan_ms, (m + p - 1) * (c.forward + c.input + c.weight));
        for (const double idle : found.idle_ms) EXPECT_EQ(idle, (p - 1) * (c.forward + c.input + c.weight));
        EXPECT_DOUBLE_EQ(found.bubble_share(), (p - 1.0) / (m + p - 1));
      }
    }
  }
}

TEST(PipelineSimulate, BubblesOfThePublishedSizes) {
  const std::vector<double> over_total = {0.273, 0.179, 0.099}, over_ideal = {0.375, 0.219, 0.109};
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto [p, m] = kSizes[i];
    const auto found = simulate(PipelineSchedule::kOneForwardOneBackward, {.stages = p, .micro_batches = m});
    EXPECT_NEAR(found.bubble_share(), over_total[i], 0.0005);
    EXPECT_NEAR(found.idle_ms[0] / (found.makespan_ms - found.idle_ms[0]), over_ideal[i], 0.0005);
  }
}

// Narayanan et al. 2021: bubble over ideal time (p - 1) / (v m). Here for any m >= p, multiple of p or not.
TEST(PipelineSimulate, InterleavedTakesItsFormula) {
  std::vector<std::pair<int, int>> sizes = kSizes;
  sizes.insert(sizes.end(), {{4, 4}, {4, 5}, {4, 7}, {4, 9}, {5, 14}, {8, 15}, {8, 33}});
  for (const auto& [p, m] : sizes) {
    for (const int v : {2, 3, 4}) {
      for (Equal c : kTimes) {
        c.stages = p, c.micro_batches = m, c.chunks = v;
        const PipelineSimulation found = simulate(PipelineSchedule::kInterleaved, c);
        const double chunk = c.forward + c.input + c.weight, ideal = m * v * chunk;
        EXPECT_EQ(found.makespan_ms, ideal + (p - 1) * chunk) << p << " " << m << " " << v;
        for (const double idle : found.idle_ms) EXPECT_DOUBLE_EQ(idle / ideal, (p - 1.0) / (v * m));
      }
    }
  }
}

// Qi et al. 2023: (p - 1)(TF + TB - TW), where the weight gradient takes no longer than the others.
TEST(PipelineSimulate, ZeroBubbleH1TakesItsFormula) {
  for (const auto& [p, m] : kSizes) {
    for (Equal c : kTimes) {
      c.stages = p, c.micro_batches = m;
      const PipelineSimulation found = simulate(PipelineSchedule::kZeroBubbleH1, c);
      EXPECT_EQ(found.makespan_ms,
                m * (c.forward + c.input + c.weight) + (p - 1) * (c.forward + c.input - c.weight));
      for (const double idle : found.idle_ms) EXPECT_EQ(idle, (p - 1) * (c.forward + c.input - c.weight));
    }
  }
}

TEST(PipelineSimulate, CountsMicroBatchesAlive) {
  for (const auto& [p, m] :
       std::vector<std::pair<int, int>>{{4, 8}, {8, 32}, {8, 64}, {4, 2}, {4, 3}, {1, 5}}) {
    const auto gpipe = simulate(PipelineSchedule::kGpipe, {.stages = p, .micro_batches = m});
    const auto one = simulate(PipelineSchedule::kOneForwardOneBackward, {.stages = p, .micro_batches = m});
    const auto h1 = simulate(PipelineSchedule::kZeroBubbleH1, {.stages = p, .micro_batches = m});
    for (int s = 0; s < p; ++s) {
      EXPECT_EQ(gpipe.alive[static_cast<std::size_t>(s)], m);
      EXPECT_EQ(one.alive[static_cast<std::size_t>(s)], std::min(p - s, m));
      EXPECT_EQ(h1.alive[static_cast<std::size_t>(s)], std::min(p, m));  // as the first stage of 1F1B
    }
    if (m < p) continue;
    for (const int v : {2, 4}) {
      if (m % p != 0 || m == p) continue;
      const auto found =
          simulate(PipelineSchedule::kInterleaved, {.stages = p, .chunks = v, .micro_batches = m});
      // Korthikanti et al. 2022: p (1 + (p - 1) / (p v)) micro-batches of the whole rank, so v times as many
      // of its chunks.
      EXPECT_EQ(found.alive[0], p * v + p - 1);
    }
  }
}

TEST(PipelineSimulate, SendsTakeTimeButNotTheRanks) {
  const auto found =
      simulate(PipelineSchedule::kGpipe,
               {.stages = 2, .micro_batches = 1, .forward = 3, .input = 4, .weight = 1, .send = 10});
  EXPECT_EQ(found.makespan_ms, 3 + 10 + 3 + 5 + 10 + 5);
  EXPECT_EQ(found.idle_ms[0], 20 + 8);
  const auto alone = simulate(PipelineSchedule::kGpipe, {.stages = 1, .micro_batches = 2, .send = 10});
  EXPECT_EQ(alone.makespan_ms, 6);
  EXPECT_EQ(alone.bubble_share(), 0.0);
}

// The slowest stage sets the pace: warm-up and drain around m of its turns.
TEST(PipelineSimulate, UnevenStages) {
  PipelineTimes times{.stages = {{1, 1, 0}, {4, 4, 0}}};
  const auto found =
      simulate_pipeline(pipeline_tasks(PipelineSchedule::kOneForwardOneBackward, 2, 1, 10), times);
  EXPECT_EQ(found.makespan_ms, 1 + 10 * 8 + 1);
  EXPECT_EQ(found.idle_ms[1], 2);
}

TEST(PipelineSimulate, RefusesWhatBlocksOrIsNotWhole) {
  using ::testing::HasSubstr;
  const auto good = pipeline_tasks(PipelineSchedule::kOneForwardOneBackward, 2, 1, 2);
  const auto error_of = [](const std::vector<std::vector<PipelineTask>>& tasks) -> std::string {
    try {
      simulate_pipeline(tasks, times_of({.stages = 2}));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of(good), "no error");

  auto tasks = good;
  tasks[0].erase(tasks[0].begin() + 1);  // F1
  EXPECT_THAT(error_of(tasks), HasSubstr("blocks: rank 0 waits to run Backward stage 0 micro-batch 1; rank 1 "
                                         "waits to run Forward stage 1 micro-batch 1"));
  tasks = good;
  tasks[0].pop_back();  // the last backward, for which nobody waits
  EXPECT_THAT(error_of(tasks), HasSubstr("stage 0 does not run micro-batch 1 forward and wholly backward"));
  tasks = good;
  std::swap(tasks[1][0], tasks[1][1]);
  EXPECT_THAT(error_of(tasks), HasSubstr("rank 1 waits to run Backward stage 1 micro-batch 0"));
  tasks = good;
  tasks[0].push_back(tasks[0].back());
  EXPECT_THAT(error_of(tasks), HasSubstr("Backward stage 0 micro-batch 1 runs twice"));
  tasks = good;
  tasks[0][0].chunk = 1;
  EXPECT_THAT(error_of(tasks), HasSubstr("does not belong on pipeline rank 0 of 2"));
  tasks = good;
  tasks[0][0].chunk = 2;
  EXPECT_THAT(error_of(tasks), HasSubstr("does not belong on pipeline rank 0 of 2 (2 stages)"));
}

}  // namespace
}  // namespace trireme
