#include "parallel/plan/pipeline_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "parallel/foresee/plan_simulate.h"
#include "parallel/plan/planner.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Kind = PipelineTask::Kind;
using Tasks = std::vector<std::vector<PipelineTask>>;

std::string order_of(const std::vector<PipelineTask>& tasks) {
  std::string text;
  for (const PipelineTask& task : tasks) {
    text += fmt::format("{}{}{} ", "FBIW"[static_cast<int>(task.kind)], task.micro_batch,
                        task.chunk >= 4 ? "'" : "");
  }
  return text;
}

std::string error_of(PipelineSchedule schedule, int stages, int chunks, int micro_batches) {
  try {
    pipeline_tasks(schedule, stages, chunks, micro_batches);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "no error";
}

TEST(PipelineSchedule, OrdersAsPublished) {
  const Tasks one = pipeline_tasks(PipelineSchedule::kOneForwardOneBackward, 4, 1, 4);
  EXPECT_EQ(order_of(one[0]), "F0 F1 F2 F3 B0 B1 B2 B3 ");
  EXPECT_EQ(order_of(one[2]), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(order_of(one[3]), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  const Tasks gpipe = pipeline_tasks(PipelineSchedule::kGpipe, 2, 1, 3);
  EXPECT_EQ(order_of(gpipe[1]), "F0 F1 F2 B0 B1 B2 ");
  // Narayanan et al. 2021, figure 4: 4 ranks, 2 chunks, 8 micro-batches.
  const Tasks interleaved = pipeline_tasks(PipelineSchedule::kInterleaved, 4, 2, 8);
  EXPECT_EQ(order_of(interleaved[3]),
            "F0 F1 F2 F3 F0' B0' F1' B1' F2' B2' F3' B3' F4 B0 F5 B1 F6 B2 F7 B3 F4' B4' F5' B5' F6' B6' F7' "
            "B7' B4 B5 B6 B7 ");
  // Qi et al. 2023, figure 3: the last stage computes weight gradients p - 1 micro-batches late.
  const Tasks h1 = pipeline_tasks(PipelineSchedule::kZeroBubbleH1, 4, 1, 5);
  EXPECT_EQ(order_of(h1[0]), "F0 F1 F2 F3 I0 W0 F4 I1 W1 I2 W2 I3 W3 I4 W4 ");
  EXPECT_EQ(order_of(h1[3]), "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 W2 W3 W4 ");
}

TEST(PipelineSchedule, NamesTheFieldOfAnImpossibleWish) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of(PipelineSchedule::kGpipe, 0, 1, 4), HasSubstr("Layout::pipeline = 0"));
  EXPECT_THAT(error_of(PipelineSchedule::kGpipe, 2, 0, 4), HasSubstr("Layout::chunks = 0"));
  EXPECT_THAT(error_of(PipelineSchedule::kGpipe, 2, 1, 0), HasSubstr("0 micro-batches"));
  EXPECT_THAT(error_of(PipelineSchedule::kZeroBubbleH1, 2, 2, 4),
              HasSubstr("chunks = 2 needs Layout::schedule = \"interleaved\"; \"zb-h1\""));
  EXPECT_THAT(error_of(PipelineSchedule::kInterleaved, 2, 1, 4), HasSubstr("Layout::chunks = 2 or more"));
  EXPECT_THAT(error_of(PipelineSchedule::kInterleaved, 4, 2, 3),
              HasSubstr("a micro-batch for each of its 4 stages and has 3"));
}

// Messages from one rank to another: (from, to, is an activation) -> (sending stage, micro-batch) in
// order.
using Channels = std::map<std::tuple<int, int, bool>, std::vector<std::pair<int, int>>>;

struct Traffic {
  Channels sent, received;
};

Traffic traffic_of(const Tasks& tasks, int num_stages) {
  Traffic traffic;
  const int p = static_cast<int>(tasks.size());
  for (int rank = 0; rank < p; ++rank) {
    for (const PipelineTask& task : tasks[static_cast<std::size_t>(rank)]) {
      if (task.kind == Kind::kBackwardWeight) continue;
      const bool forward = task.kind == Kind::kForward;
      const int step = forward ? 1 : -1;
      const int to = task.chunk + step, from = task.chunk - step;
      if (to >= 0 && to < num_stages && to % p != rank) {
        traffic.sent[{rank, to % p, forward}].push_back({task.chunk, task.micro_batch});
      }
      if (from >= 0 && from < num_stages && from % p != rank) {
        traffic.received[{from % p, rank, forward}].push_back({from, task.micro_batch});
      }
    }
  }
  return traffic;
}

void expect_micro_batch_order(const std::vector<PipelineTask>& tasks) {
  std::map<std::pair<Kind, int>, int> next;  // (kind, chunk)
  for (const PipelineTask& task : tasks) {
    ASSERT_EQ(task.micro_batch, (next[{task.kind, task.chunk}]++)) << to_string(task);
  }
}

/// Every stage runs every micro-batch once forward and once completely backward, on its rank.
void expect_whole(const Tasks& tasks, int num_stages, int micro_batches) {
  std::map<std::tuple<Kind, int, int>, int> times;  // (kind, chunk, micro-batch)
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
    for (const PipelineTask& task : tasks[rank]) {
      ASSERT_EQ(static_cast<std::size_t>(task.chunk) % tasks.size(), rank) << to_string(task);
      ++times[{task.kind, task.chunk, task.micro_batch}];
    }
  }
  for (int stage = 0; stage < num_stages; ++stage) {
    for (int i = 0; i < micro_batches; ++i) {
      const auto runs = [&](Kind kind) {
        const auto found = times.find({kind, stage, i});
        return found == times.end() ? 0 : found->second;
      };
      ASSERT_EQ(runs(Kind::kForward), 1) << stage << " " << i;
      ASSERT_EQ(runs(Kind::kBackward) + runs(Kind::kBackwardInput), 1) << stage << " " << i;
      ASSERT_EQ(runs(Kind::kBackward) + runs(Kind::kBackwardWeight), 1) << stage << " " << i;
    }
  }
}

TEST(PipelineSchedule, RandomSchedulesAreWholeAndNeverBlock) {
  std::mt19937 random(6);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 1000; ++i) {
    const auto schedule = static_cast<PipelineSchedule>(draw(0, 3));
    const int p = draw(1, 16);
    const bool interleaved = schedule == PipelineSchedule::kInterleaved;
    const int v = interleaved ? draw(2, 4) : 1, m = draw(interleaved ? p : 1, 64);
    SCOPED_TRACE(fmt::format("{} p {} v {} m {}", name(schedule), p, v, m));
    const Tasks tasks = pipeline_tasks(schedule, p, v, m);
    PlanTimes times{.send_ms = draw(0, 3) * 0.5};
    for (int stage = 0; stage < p * v; ++stage)
      times.blocks.push_back({"", draw(0, 9) * 1.0, draw(0, 9) * 1.0});
    expect_whole(tasks, p * v, m);
    for (const auto& list : tasks) expect_micro_batch_order(list);
    const Traffic traffic = traffic_of(tasks, p * v);
    ASSERT_EQ(traffic.sent, traffic.received);  // so the kind of a message suffices as its tag
    const StageCounts counts{.num_units = p * v, .pipeline = p, .chunks = v};
    if (p == 1) continue;  // a plan of one stage has no schedule
    const StepPlan plan =
        plan_training_step(p * v, {{Axis::kPipeline, p}}, {.global_batch = m},
                           {.layout = {.schedule = schedule}, .stages = StageMap::even(counts)});
    ASSERT_NO_THROW(simulate_plan(plan, times));  // throws if the plan blocks
  }
}

}  // namespace
}  // namespace trireme
