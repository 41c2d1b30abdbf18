// GPU pipelines without a GPU: the engine over the emulated cuda backend and emulated NCCL, whose streams,
// messages and connections wait as NCCL's do (nccl_emulation.h). So an order of messages that would hang on
// cards hangs here, and ends with the timeout below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "parallel/comm/nccl.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/support/pipeline_layout.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Layout = testing::PipelineLayout;
using Outcome = testing::PipelineOutcome;
using ::testing::HasSubstr;

using enum PipelineSchedule;

constexpr auto kLongerThanAnyTest = std::chrono::seconds(100);

Layout small(Layout layout) {
  layout.gpt.hidden = 8;
  layout.gpt.heads = 1;
  layout.gpt.vocab = 13;
  layout.gpt.seq_len = 4;
  layout.global_batch = 8;
  layout.micro_batch = 1;
  return layout;
}

class NcclPipeline : public ::testing::Test {
 protected:
  NcclPipeline() { emulation::set_device_count(8); }
  ~NcclPipeline() override { emulation::set_device_count(1); }

  using RankMain = std::function<void(Engine& engine)>;

  // One rank per card.
  static void run_ranks(const Layout& layout, const RankMain& rank_main,
                        std::chrono::seconds timeout = kLongerThanAnyTest) {
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& host) {
      EngineOptions options = layout.options();
      options.device = {DeviceType::kCuda, host->rank()};
      const auto comm = host->size() > 1 ? make_nccl_communicator(host, options.device, timeout) : host;
      Engine engine(build_gpt(layout.model()), comm, options);
      rank_main(engine);
    });
  }

  enum class Evaluate { kNo, kYes };
  static Outcome train(const Layout& layout, Evaluate evaluate) {
    std::mutex mutex;
    std::vector<Outcome> outcomes;
    run_ranks(layout, [&](Engine& engine) {
      const StepResult last = testing::train(engine, layout, 2);
      const Outcome mine = evaluate == Evaluate::kYes
                               ? testing::outcome_of(engine, layout, last)
                               : Outcome{engine.state_hash(), last.loss, last.grad_norm};
      const std::lock_guard lock(mutex);
      outcomes.push_back(mine);
    });
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome == outcomes[0]) << layout.to_string();
    return outcomes.at(0);
  }

  static std::string failure_of(const Layout& layout, std::chrono::seconds timeout,
                                const std::function<void(int rank, int read)>& before_read) {
    try {
      run_ranks(
          layout,
          [&](Engine& engine) {
            const BatchSource tokens = testing::token_source(layout.gpt.vocab, layout.gpt.seq_len, 0);
            int reads = 0;
            engine.step(
                [&](std::int64_t first, std::int64_t count) {
                  before_read(engine.communicator().rank(), reads++);
                  return tokens(first, count);
                },
                layout.global_batch * layout.gpt.seq_len, 1e-2);
          },
          timeout);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing failed";
  }
};

// Rank 1's data arrives late, and the stream of rank 0 waits for its gradients.
TEST_F(NcclPipeline, PhasesTellALateRankFromThoseThatWaitForIt) {
  const Layout layout = small({.data = 2, .zero = 0});
  std::array<StepPhases, 2> phases;
  double late_s = 0.0;  // delay of each of its four micro-batches
  run_ranks(layout, [&](Engine& engine) {
    const int rank = engine.communicator().rank();
    const BatchSource tokens = testing::token_source(layout.gpt.vocab, layout.gpt.seq_len, 0);
    const auto step = [&](double sleep_s) {
      return engine
          .step(
              [&](std::int64_t first, std::int64_t count) {
                std::this_thread::sleep_for(std::chrono::duration<double>(sleep_s));
                return tokens(first, count);
              },
              layout.global_batch * layout.gpt.seq_len, 1e-2)
          .phases.value();
    };
    // A whole step, so that rank 0 is not the later one under any load of the machine.
    const double whole_s = step(0.0).busy_s();
    if (rank == 1) late_s = whole_s;
    phases[static_cast<std::size_t>(rank)] = step(rank == 1 ? whole_s : 0.0);
  });
  for (const StepPhases& rank : phases) {
    EXPECT_GT(rank.forward_s, 0);
    EXPECT_GT(rank.waited_s, 0);
    EXPECT_LE(rank.waited_s, rank.exchange_s);
  }
  EXPECT_GE(phases[1].data_wait_s, late_s * 4);
  EXPECT_GT(phases[1].busy_s(), phases[0].busy_s());
  EXPECT_GT(phases[0].waited_s, late_s);
}

// A recorded step sends and draws the same as an enqueued one, on every layout. The last two of four steps
// are replayed.
TEST_F(NcclPipeline, RecordedStepsAreEnqueuedOnes) {
  const std::vector<Layout> layouts = {
      {.data = 2, .zero = 0},
      {.data = 4, .zero = 1},
      {.data = 2, .zero = 2},
      {.data = 4, .zero = 3, .prefetch = 2},
      {.stages = 2, .schedule = kGpipe},
      {.stages = 2, .data = 2, .schedule = kOneForwardOneBackward, .zero = 3, .recompute = 1},
      {.stages = 2, .schedule = kInterleaved, .chunks = 2, .zero = 1},
      {.stages = 4, .schedule = kZeroBubbleH1, .tied = false, .precision = Precision(PrecisionMode::kFp16)}};
  for (const Layout& given : testing::sampled(layouts, 3)) {
    const Layout layout = small(given);
    std::mutex mutex;
    std::vector<std::array<Outcome, 2>> outcomes;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& host) {
      std::array<Outcome, 2> mine;
      std::array<std::int64_t, 2> sent{};
      for (const bool recorded : {false, true}) {
        EngineOptions options = layout.options();
        options.device = {DeviceType::kCuda, host->rank()};
        options.cuda_graph = recorded;
        const auto comm = make_nccl_communicator(host, options.device, kLongerThanAnyTest);
        Engine engine(build_gpt(layout.model()), comm, options);
        const StepResult last = testing::train(engine, layout, 4);
        mine[recorded] = {engine.state_hash(), last.loss, last.grad_norm};
        sent[recorded] = last.sent_bytes;
        EXPECT_EQ(recorded, engine.step_graph() != nullptr && engine.step_graph()->replayed());
        host->barrier();
      }
      const std::lock_guard lock(mutex);
      EXPECT_EQ(sent[0], sent[1]) << layout.to_string();
      outcomes.push_back(mine);
    });
    for (const auto& [enqueued, recorded] : outcomes) {
      EXPECT_TRUE(enqueued == recorded && enqueued == outcomes[0][0]) << layout.to_string();
    }
  }
}

// With an evaluation in between, another number of targets, and memory as predicted.
TEST_F(NcclPipeline, RecordedStepsGoOnAfterOtherWork) {
  const Layout layout = small({.stages = 2, .data = 2, .zero = 3});
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  std::mutex mutex;
  std::vector<std::array<std::uint64_t, 2>> hashes;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& host) {
    std::array<std::uint64_t, 2> mine{};
    for (const bool recorded : {false, true}) {
      EngineOptions options = layout.options();
      options.device = {DeviceType::kCuda, host->rank()};
      options.cuda_graph = recorded;
      const auto comm = make_nccl_communicator(host, options.device, kLongerThanAnyTest);
      Engine engine(build_gpt(layout.model()), comm, options);
      StepPrediction predicted = predict_step(blocks, options, *options.sample, layout.ranks(), host->rank());
      predicted.memory.peak[MemoryCategory::kWorkspace] = 0;  // without the library's own
      for (int step = 0; step < 9; ++step) {
        const std::int64_t targets = layout.global_batch * layout.gpt.seq_len - (step >= 5 ? 3 : 0);
        StepResult result = engine.step(
            testing::token_source(layout.gpt.vocab, layout.gpt.seq_len, step * layout.global_batch), targets,
            1e-2);
        result.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << "step " << step;
        EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << "step " << step;
      }
      testing::outcome_of(engine, layout, {});
      mine[recorded] = engine.state_hash();
      host->barrier();
    }
    const std::lock_guard lock(mutex);
    hashes.push_back(mine);
  });
  for (const auto& [enqueued, recorded] : hashes) {
    EXPECT_EQ(enqueued, recorded);
    EXPECT_EQ(enqueued, hashes[0][0]);
  }
}

struct NcclPipelineLayouts : NcclPipeline, ::testing::WithParamInterface<std::tuple<int, int>> {};

TEST_P(NcclPipelineLayouts, GiveTheStateOfOneProcess) {
  static const Outcome expected = train(small({}), Evaluate::kYes);
  const auto [stages, data] = GetParam();
  for (const PipelineSchedule schedule : {kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1}) {
    for (const int zero : {0, 3}) {
      const Layout layout = small({.stages = stages,
                                   .data = data,
                                   .schedule = schedule,
                                   .chunks = schedule == kInterleaved ? 2 : 1,
                                   .zero = zero});
      const bool evaluates = schedule == kInterleaved && zero == 3;
      Outcome outcome = train(layout, evaluates ? Evaluate::kYes : Evaluate::kNo);
      if (!evaluates) outcome.eval_loss = expected.eval_loss;
      EXPECT_TRUE(outcome == expected) << layout.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mesh, NcclPipelineLayouts,
                         ::testing::Combine(::testing::Values(2, 4), ::testing::Values(1, 2)),
                         [](const auto& info) {
                           return fmt::format("{}StagesOf{}", std::get<0>(info.param),
                                              std::get<1>(info.param));
                         });

// Sharded gradients and optimizer state, recompute, an uneven cut, untied parameters, and a scaled loss.
TEST_F(NcclPipeline, FurtherLayoutsGiveTheSameState) {
  for (const bool tied : {true, false}) {
    Layout layout = small({.tied = tied, .precision = Precision(PrecisionMode::kFp16)});
    const Outcome expected = train(layout, Evaluate::kYes);
    layout.stages = tied ? 3 : 4;
    layout.data = tied ? 2 : 1;
    layout.schedule = tied ? kGpipe : kZeroBubbleH1;
    layout.zero = tied ? 2 : 1;
    layout.recompute = tied ? 2 : 1;
    if (tied) layout.cut = {1, 6};
    EXPECT_TRUE(train(layout, Evaluate::kYes) == expected) << layout.to_string();
  }
}

TEST_F(NcclPipeline, PredictionEqualsMeasurement) {
  for (const Layout& given : {Layout{.stages = 4, .data = 2, .zero = 3, .recompute = 2},
                              Layout{.stages = 2, .schedule = kInterleaved, .chunks = 2},
                              Layout{.stages = 4, .schedule = kZeroBubbleH1}}) {
    const Layout layout = small(given);
    const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
    std::mutex mutex;
    run_ranks(layout, [&](Engine& engine) {
      EngineOptions options = layout.options();
      const int rank = engine.communicator().rank();
      const StepPrediction predicted = predict_step(blocks, options, *options.sample, layout.ranks(), rank);
      for (int step = 0; step < 2; ++step) {
        StepResult measured = testing::train(engine, layout, step + 1);
        measured.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        const std::string where = fmt::format("{}, rank {}", layout.to_string(), rank);
        EXPECT_EQ(measured.memory.peak.bytes, predicted.memory.peak.bytes) << where;
        EXPECT_EQ(measured.sent_bytes, predicted.sent_bytes) << where;
      }
    });
  }
}

// Tests [Note: dry runs]: calls that may wait for the whole device are done before the first receive is
// posted. The other tests show that this changes no bit.
TEST_F(NcclPipeline, NoPlayMakesWhatMayWaitForTheDevice) {
  for (const Layout& given :
       {Layout{.stages = 4, .schedule = kZeroBubbleH1},
        Layout{.stages = 2, .data = 2, .schedule = kInterleaved, .chunks = 2, .zero = 3},
        Layout{.stages = 2, .schedule = kGpipe, .recompute = 1}}) {
    for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
      Layout layout = small(given);
      layout.precision = Precision(mode);
      run_ranks(layout, [&](Engine& engine) {
        const emulation::Counts before = emulation::counts();
        EXPECT_GT(before.choices, 0);
        for (int step = 0; step < 2; ++step) testing::train(engine, layout, 1);
        const emulation::Counts after = emulation::counts();
        const std::string where =
            fmt::format("{}, rank {}", layout.to_string(), engine.communicator().rank());
        EXPECT_EQ(after.choices, before.choices) << "plans in a step of " << where;
        EXPECT_EQ(after.pinned, before.pinned) << "page-locked memory in a step of " << where;
        EXPECT_EQ(after.frees, before.frees) << where;
      });
    }
  }
}

TEST_F(NcclPipeline, ACheckpointResumesUnderAnotherLayout) {
  const testing::TemporaryFolder folder;
  const Outcome expected = train(small({}), Evaluate::kYes);
  const Layout before = small({.stages = 4, .schedule = kGpipe}),
               after = small({.stages = 2, .data = 2, .zero = 3});
  run_ranks(before, [&](Engine& engine) {
    testing::train(engine, before, 1);
    save_state(engine, folder.path());
  });
  run_ranks(after, [&](Engine& engine) {
    load_state(engine, folder.path(), StateParts::kAll);
    engine.set_steps_done(1);
    const StepResult last = testing::train(engine, after, 2);
    EXPECT_TRUE(testing::outcome_of(engine, after, last) == expected);
  });
}

// The rank fails with receives in flight whose sender never comes, and must not wait for them.
TEST_F(NcclPipeline, ARankThatFailsEndsAll) {
  const std::string message = failure_of(small({.stages = 4}), kLongerThanAnyTest, [](int rank, int read) {
    TRIREME_CHECK(rank != 0 || read != 5, "the disk is gone");
  });
  EXPECT_THAT(message, HasSubstr("rank 0, step 1, action "));
  EXPECT_THAT(message, HasSubstr("Forward unit 0 micro-batch 5) of block 'embedding': the disk is gone"));
}

// The error names the waiting operation. Every communicator is aborted, so waiting ranks continue to their
// error.
TEST_F(NcclPipeline, AMessageThatDoesNotComeEndsAll) {
  const std::string message =
      failure_of(small({.stages = 2}), std::chrono::seconds(1), [](int rank, int read) {
        if (rank == 0 && read == 5) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      });
  EXPECT_THAT(message, HasSubstr("has not ended within 1 s: a rank may have died or be stuck"));
}

// A replay is watched as one operation.
TEST_F(NcclPipeline, ARecordedStepThatDoesNotEndIsNamed) {
  const Layout layout = small({.data = 2});
  std::string message;
  try {
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& host) {
      EngineOptions options = layout.options();
      options.device = {DeviceType::kCuda, host->rank()};
      options.cuda_graph = true;
      emulation::hold_new_streams(true);  // as on a card, enqueued work does not block the host
      const auto comm = make_nccl_communicator(host, options.device, std::chrono::seconds(2));
      Engine engine(build_gpt(layout.model()), comm, options);
      testing::train(engine, layout, 3);
      if (host->rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
      testing::train(engine, layout, 6);
    });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message,
              HasSubstr("a recorded step on rank 0 of 2 has not ended within 2 s: a rank may have died"));
}

// Each rank's host waits for a message that the other would send afterwards.
TEST_F(NcclPipeline, MessagesInAnotherOrderAreNamed) {
  std::string message;
  try {
    run_local_ranks(2, [](const std::shared_ptr<Communicator>& host) {
      const Device device{DeviceType::kCuda, host->rank()};
      const auto comm = make_nccl_communicator(host, device, std::chrono::seconds(1));
      comm->open_channels(
          {{.source = 0, .destination = 1, .tag = 0}, {.source = 1, .destination = 0, .tag = 0}});
      const Context ctx = Context::create(device, 1);
      const int peer = 1 - comm->rank();
      comm->bind_stream(ctx.backend->native_stream(ctx.exec));
      comm->recv(ctx.empty({4}), peer, 0).wait();
      comm->send(ctx.empty({4}), peer, 0).wait();
    });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message,
              ::testing::ContainsRegex("recv of fp32 \\[4\\] on rank [01] of 2 from rank [01], tag 0 has "
                                       "not ended within 1 s"));
}

}  // namespace
}  // namespace trireme
