// Profiler ranges, phases and traces of steps on the emulated cuda backend. Ranges are named by action and
// block; phases and traces come from marks on the stream.
#include "kernels/backend_marks.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kernels/cuda/device/handle.h"
#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "parallel/run/step_trace.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/cuda/emulation/profiler.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::StartsWith;

// The profiler must be attached before the first range of the process.
const bool kAttached = (emulation::attach_profiler(), true);

constexpr std::int64_t kGlobalBatch = 2;
const GptConfig kModel{.layers = 1, .hidden = 16, .heads = 2, .vocab = 19, .seq_len = 8};

struct TrainingRun {
  Engine engine;

  explicit TrainingRun(bool cuda_graph = false)
      : engine(build_gpt(kModel), LocalWorld(1).communicator(0),
               {.device = {DeviceType::kCuda, 0},
                .global_batch = kGlobalBatch,
                .micro_batch = 1,
                .cuda_graph = cuda_graph}) {}

  void enqueue() { enqueue(testing::token_source(kModel.vocab, kModel.seq_len, 0)); }
  void enqueue(const BatchSource& source) {
    engine.enqueue_step(source, kGlobalBatch * kModel.seq_len, 1e-2);
  }
};

double sum_s(const StepPhases& phases) {
  return phases.data_wait_s + phases.forward_s + phases.backward_s + phases.exchange_s + phases.optimizer_s;
}

TEST(DeviceMarks, RangesAreNamedByActionBlockAndMicroBatch) {
  ASSERT_TRUE(kAttached);
  TrainingRun run;
  emulation::profiled_ranges().clear();
  run.enqueue();
  run.engine.collect();
  const std::vector<std::string>& ranges = emulation::profiled_ranges();
  EXPECT_EQ(ranges.front(), "step 1");
  EXPECT_THAT(ranges, Contains("step 1 / Forward blocks.0 mb 1"));
  EXPECT_THAT(ranges, Contains("step 1 / Backward head mb 0"));
  EXPECT_THAT(ranges, Contains(StartsWith("step 1 / OptimStep")));
  EXPECT_EQ(ranges.size(), 1 + run.engine.plan().ranks[0].actions.size());
  const std::size_t num_ranges = ranges.size();
  run.enqueue();
  run.engine.collect();
  EXPECT_EQ(ranges[num_ranges], "step 2");  // the ranges of step 1 were closed
}

TEST(DeviceMarks, AReplayedStepIsOneRangeAndHasNoPhases) {
  TrainingRun run(true);
  for (int step = 1; step <= 4; ++step) {
    emulation::profiled_ranges().clear();
    run.enqueue();
    EXPECT_FALSE(run.engine.collect().phases) << step;
  }
  EXPECT_THAT(emulation::profiled_ranges(), ElementsAre("step 4 (graph)"));
}

TEST(DeviceMarks, PhasesAreReadWithTheResultsAndNoStepWaits) {
  TrainingRun run;
  run.enqueue();
  const auto before = emulation::counts();
  run.enqueue();  // before the first is collected
  EXPECT_EQ(emulation::counts().waits, before.waits);
  for (int step = 1; step <= 2; ++step) {
    const StepResult result = run.engine.collect();
    ASSERT_TRUE(result.phases);
    for (const double seconds : {result.phases->data_wait_s, result.phases->forward_s,
                                 result.phases->backward_s, result.phases->optimizer_s})
      EXPECT_GT(seconds, 0) << step;
    EXPECT_EQ(result.phases->waited_s, 0);  // only one rank
  }
}

TEST(DeviceMarks, PhasesAddUpToTheStep) {
  TrainingRun run;
  run.enqueue();
  run.engine.collect();
  const auto start = std::chrono::steady_clock::now();
  run.enqueue();
  const StepPhases phases = run.engine.collect().phases.value();
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(sum_s(phases), wall_s);
  EXPECT_GT(sum_s(phases), 0.5 * wall_s);  // emulated work completes when it is enqueued
}

TEST(DeviceMarks, ADeviceThatStandsStillForDataSaysSo) {
  constexpr double kLate_s = 0.3;  // more than a step takes under sanitizers
  TrainingRun run;
  const BatchSource source = testing::token_source(kModel.vocab, kModel.seq_len, 0);
  run.enqueue([&](std::int64_t first, std::int64_t count) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kLate_s));
    return source(first, count);
  });
  const StepPhases phases = run.engine.collect().phases.value();
  EXPECT_GE(phases.data_wait_s, kLate_s * kGlobalBatch);
  EXPECT_LT(phases.forward_s, phases.data_wait_s);
}

// An evaluation between two steps counts for neither.
TEST(DeviceMarks, EvaluationsAreNoPartOfSteps) {
  TrainingRun run;
  run.enqueue();
  const auto source = testing::token_source(kModel.vocab, kModel.seq_len, 0);
  run.engine.evaluate(source, 2, 2 * kModel.seq_len);
  EXPECT_TRUE(run.engine.collect().phases);
  run.engine.evaluate(source, 2, 2 * kModel.seq_len);
  run.enqueue();
  EXPECT_TRUE(run.engine.collect().phases);
}

TEST(DeviceMarks, ATraceHasTheDevicesTimesBesideTheHosts) {
  TrainingRun run;
  run.enqueue();
  run.engine.collect();
  Timeline timeline;
  {
    const StepTrace trace(run.engine);
    const auto before = emulation::counts();
    run.enqueue();
    EXPECT_EQ(emulation::counts().waits, before.waits);  // a traced step runs like any other
    timeline = trace.gather();
  }
  run.engine.collect();
  const std::size_t num_actions = run.engine.plan().ranks[0].actions.size();
  ASSERT_EQ(timeline.spans.size(), num_actions);
  ASSERT_EQ(timeline.host_spans.size(), num_actions);
  for (std::size_t i = 0; i < num_actions; ++i) {
    EXPECT_EQ(timeline.spans[i].label, timeline.host_spans[i].label);
    EXPECT_LE(timeline.spans[i].start_ms, timeline.spans[i].end_ms);
    EXPECT_LE(timeline.host_spans[i].start_ms, timeline.host_spans[i].end_ms);
    // Emulated work ends before the host continues. The clocks start a moment apart.
    EXPECT_NEAR(timeline.spans[i].end_ms, timeline.host_spans[i].end_ms, 5);
  }
}

TEST(StreamClock, SaysWhatPassedBetweenMarks) {
  const DeviceMarks& marks = cuda_device_marks();
  Context ctx = Context::create({DeviceType::kCuda, 0}, 1);
  const auto clock = marks.make_clock(ctx.exec);
  EXPECT_THAT(clock->read_ms(), ElementsAre());
  for (int round = 0; round < 2; ++round) {
    clock->clear();
    clock->mark();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    clock->mark();
    clock->mark();
    const std::vector<double> ms = clock->read_ms();
    ASSERT_EQ(ms.size(), 2U);
    EXPECT_GE(ms[0], 4.9);
    EXPECT_LT(ms[1], ms[0]);
  }
}

TEST(StreamClock, EventsWithoutTimesAreRefused) {
  cuda::StreamHandle stream;
  cuda::Event ordering;
  ordering.record(stream.get());
  cudaEvent_t timed = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&timed, cudaEventDefault), cudaSuccess);
  float ms = 0;
  EXPECT_NE(cudaEventElapsedTime(&ms, ordering.get(), timed), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(timed, stream.get()), cudaSuccess);
  EXPECT_NE(cudaEventElapsedTime(&ms, ordering.get(), timed), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, timed, timed), cudaSuccess);
  cudaEventDestroy(timed);
}

}  // namespace
}  // namespace trireme
