#include "parallel/run/step_trace.h"

#include <gtest/gtest.h>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

TEST(StepTrace, TimesEveryActionOfEveryRank) {
  const GptConfig config = testing::tiny_gpt_config();
  const BatchSource source = testing::token_source(config.vocab, config.seq_len, 0);
  std::uint64_t traced_hash = 0, plain_hash = 0;
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(config), comm, {.global_batch = 4, .micro_batch = 1});
    Engine plain(build_gpt(config), comm, {.global_batch = 4, .micro_batch = 1});
    plain.step(source, 4 * config.seq_len, 1e-3);
    {
      const StepTrace trace(engine);
      EXPECT_THROW(static_cast<void>(trace.gather()), Error);  // no step ran, on either rank
      engine.step(source, 4 * config.seq_len, 1e-3);
      const Timeline timeline = trace.gather();
      EXPECT_EQ(timeline.num_ranks, 2);
      std::size_t i = 0;
      const auto is_wait = [](const TimelineSpan& span) { return span.label.starts_with("wait in "); };
      for (int rank = 0; rank < 2; ++rank) {
        double before = 0;
        for (const Action& action : engine.plan().ranks[static_cast<std::size_t>(rank)].actions) {
          if (is_wait(timeline.spans.at(i))) {
            EXPECT_EQ(timeline.spans[i].start_ms, before);
            before = timeline.spans[i++].end_ms;
          }
          const TimelineSpan& span = timeline.spans.at(i++);
          EXPECT_EQ(span.rank, rank);
          EXPECT_EQ(span.micro_batch, action.micro_batch);
          EXPECT_EQ(span.start_ms, before);
          EXPECT_GE(span.end_ms, span.start_ms);
          const bool back = action.kind == ActionKind::kBackward,
                     reduce = action.kind == ActionKind::kReduceGrad;
          EXPECT_EQ(span.spent == TimeSpent::kBackward, back);
          EXPECT_TRUE(!reduce || span.spent == TimeSpent::kExchange);
          EXPECT_TRUE(!back || span.end_ms > span.start_ms);
          before = span.end_ms;
        }
      }
      EXPECT_EQ(i, timeline.spans.size());
    }
    engine.step(source, 4 * config.seq_len, 1e-3);  // no observer any more
    plain.step(source, 4 * config.seq_len, 1e-3);
    if (comm->rank() == 0) traced_hash = engine.state_hash(), plain_hash = plain.state_hash();
  });
  EXPECT_EQ(traced_hash, plain_hash);
  EXPECT_NE(traced_hash, 0u);
}

// Time in which the second stage waits for the first is not work. (Clocks of ranks are not compared, because
// they start slightly apart on a busy machine.)
TEST(StepTrace, TellsWaitingFromWork) {
  const GptConfig config = testing::tiny_gpt_config();
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(config), comm,
                  {.global_batch = 2,
                   .micro_batch = 1,
                   .layout = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
                   .sample = SampleSpec{.input = {config.seq_len}, .target = {config.seq_len}}});
    const StepTrace trace(engine);
    engine.step(testing::token_source(config.vocab, config.seq_len, 0), 2 * config.seq_len, 1e-3);
    const Timeline timeline = trace.gather();
    const auto of_rank = [&](int rank, bool waits) {
      for (const TimelineSpan& span : timeline.spans) {
        const bool forward = span.label.find("Forward unit") != std::string::npos;
        if (span.rank == rank && forward && span.label.starts_with("wait in ") == waits) return span;
      }
      return TimelineSpan{};
    };
    const TimelineSpan first = of_rank(0, false), wait = of_rank(1, true), second = of_rank(1, false);
    EXPECT_EQ(wait.spent, TimeSpent::kExchange);
    EXPECT_EQ(wait.end_ms, second.start_ms);
    EXPECT_EQ(second.spent, TimeSpent::kForward);
    EXPECT_EQ(first.spent, TimeSpent::kForward);
    EXPECT_LE(timeline.busy_ms(1), timeline.duration_ms());
    int num_weights = 0;  // nothing waits for their gradients
    for (const TimelineSpan& span : timeline.spans) {
      num_weights += span.spent == TimeSpent::kBackwardWeight ? 1 : 0;
      EXPECT_FALSE(span.label.starts_with("wait in BackwardWeight")) << span.label;
    }
    EXPECT_EQ(num_weights, 2 * 2);  // of two units on the second stage, and two micro-batches
  });
}

}  // namespace
}  // namespace trireme
