#include "parallel/run/step_phases.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(StepPhases, AddUpToNoMoreThanTheStep) {
  const GptConfig config = testing::tiny_gpt_config();
  const BatchSource source = testing::token_source(config.vocab, config.seq_len, 0);
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(config), comm,
                  {.global_batch = 4, .micro_batch = 1, .layout = {.recompute_every = 1}});
    for (int step = 0; step < 3; ++step) {
      const auto start = Clock::now();
      const StepResult result = engine.step(source, 4 * config.seq_len, 1e-3);
      const double wall_s = seconds_since(start);
      ASSERT_TRUE(result.phases);
      const StepPhases& phases = *result.phases;
      for (const double seconds :
           {phases.data_wait_s, phases.forward_s, phases.backward_s, phases.exchange_s, phases.optimizer_s}) {
        EXPECT_GT(seconds, 0);
      }
      EXPECT_LE(phases.waited_s, phases.exchange_s);
      // The sum rounds once per action.
      EXPECT_LE(phases.busy_s() + phases.waited_s, wall_s * (1 + 1e-12));
      // Time that communicators count is in the exchange phase, in every action.
      EXPECT_NEAR(phases.waited_s, result.comm_wait_ms / 1e3, 1e-9);
    }
  });
}

// Rank 1's data comes late, and rank 0 has nothing to do meanwhile.
TEST(StepPhases, TellALateRankFromThoseThatWaitForIt) {
  constexpr double kLate_s = 0.05;
  const GptConfig config = testing::tiny_gpt_config();
  const BatchSource source = testing::token_source(config.vocab, config.seq_len, 0);
  std::atomic<bool> first_has_begun = false;
  StepPhases phases[2];
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    const int rank = comm->rank();
    Engine engine(build_gpt(config), comm, {.global_batch = 2, .micro_batch = 1});
    const BatchSource late = [&](std::int64_t first, std::int64_t count) {
      if (rank == 0) first_has_begun = true;
      if (rank == 1) {
        while (!first_has_begun) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::duration<double>(kLate_s));
      }
      return source(first, count);
    };
    phases[rank] = engine.step(late, 2 * config.seq_len, 1e-3).phases.value();
  });
  EXPECT_GE(phases[1].data_wait_s, kLate_s);
  EXPECT_LT(phases[1].forward_s, phases[1].data_wait_s);
  EXPECT_GE(phases[0].busy_s() + phases[0].waited_s, kLate_s);
  EXPECT_GT(phases[1].busy_s(), kLate_s);
}

}  // namespace
}  // namespace trireme
