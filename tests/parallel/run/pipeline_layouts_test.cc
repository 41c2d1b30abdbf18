// Properties of pipelines in addition to the equal states of pipeline_states_test.cc: more precisions and
// cuts, predicted memory, checkpoints that change the layout, and failures that name the culprit.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/support/pipeline_layout.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Layout = testing::PipelineLayout;
using Outcome = testing::PipelineOutcome;
using testing::outcome_of;
using testing::train;

constexpr auto kGpipe = PipelineSchedule::kGpipe;
constexpr auto kInterleaved = PipelineSchedule::kInterleaved;
constexpr auto kZeroBubbleH1 = PipelineSchedule::kZeroBubbleH1;

Outcome run(const Layout& layout, std::int64_t steps) {
  return testing::train_and_evaluate(layout, steps);
}

TEST(PipelineLayouts, FewerBitsGiveTheSameState) {
  for (const PrecisionMode mode : {PrecisionMode::kBf16, PrecisionMode::kFp16, PrecisionMode::kFp8}) {
    Precision precision(mode);
    precision.grad_dtype = mode != PrecisionMode::kFp16 ? DType::kBFloat16 : DType::kFloat32;
    const Outcome expected = run({.precision = precision}, 3);
    for (Layout layout : {Layout{.stages = 2, .data = 2, .zero = 2}, Layout{.stages = 4, .schedule = kGpipe},
                          Layout{.stages = 2, .data = 2, .schedule = kInterleaved, .chunks = 2, .zero = 3},
                          Layout{.stages = 4, .data = 2, .zero = 1, .recompute = 2},
                          Layout{.stages = 2, .data = 2, .schedule = kZeroBubbleH1, .zero = 2},
                          Layout{.stages = 4, .schedule = kZeroBubbleH1, .recompute = 1}}) {
      layout.precision = precision;
      EXPECT_TRUE(run(layout, 3) == expected) << layout.to_string();
    }
  }
}

// In this model only dropout makes the residual stream fp32, and dropout does not run in evaluation. Stages
// exchange 16-bit tensors in evaluation and fp32 tensors in training.
TEST(PipelineLayouts, ABoundaryHasTheDtypeOfItsPlay) {
  for (const PrecisionMode mode : {PrecisionMode::kBf16, PrecisionMode::kFp16}) {
    Precision precision(mode);
    precision.override_op(OpKind::kDropout, PrecisionMode::kFp32);
    const Outcome expected = run({.precision = precision}, 2);
    for (Layout layout :
         {Layout{.stages = 2}, Layout{.stages = 2, .data = 2, .schedule = kGpipe, .recompute = 2},
          Layout{.stages = 2, .schedule = kInterleaved, .chunks = 2, .zero = 3},
          Layout{.stages = 2, .schedule = kZeroBubbleH1, .zero = 2}}) {
      layout.precision = precision;
      EXPECT_TRUE(run(layout, 2) == expected) << layout.to_string();
    }
  }
}

// Blocks are merged into groups only within a chunk, so the cut may be anywhere.
TEST(PipelineLayouts, UnevenCutsAndMergedGroupsGiveTheSameState) {
  const Outcome expected = run({}, 3);
  for (const std::vector<int>& cut : {std::vector<int>{1, 2}, {6, 7}, {3, 4}}) {
    for (const std::int64_t merged : {0, 1 << 20}) {
      for (const auto schedule : {PipelineSchedule::kOneForwardOneBackward, kZeroBubbleH1}) {
        Layout layout{.stages = 3, .data = 2, .schedule = schedule, .zero = 1, .cut = cut};
        layout.group_min_bytes = merged;
        EXPECT_TRUE(run(layout, 3) == expected) << layout.to_string();
      }
    }
  }
}

TEST(PipelineLayouts, PredictionEqualsMeasurement) {
  for (const Layout& layout :
       {Layout{.stages = 2}, Layout{.stages = 2, .data = 2, .schedule = kGpipe, .recompute = 2},
        Layout{.stages = 4, .data = 2, .zero = 3, .recompute = 2}, Layout{.stages = 4, .zero = 2},
        Layout{.stages = 2, .data = 2, .schedule = kInterleaved, .chunks = 2, .zero = 1},
        Layout{.stages = 4, .schedule = kZeroBubbleH1},
        Layout{.stages = 2, .data = 2, .schedule = kZeroBubbleH1, .zero = 3},
        Layout{.stages = 4, .data = 2, .schedule = kZeroBubbleH1, .zero = 2, .recompute = 1},
        Layout{.stages = 3, .data = 1, .tied = false, .cut = {1, 6}}}) {
    const GptConfig config = layout.model();
    const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
    const EngineOptions options = layout.options();
    std::mutex mutex;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, options);
      const StepPrediction predicted =
          predict_step(blocks, options, *options.sample, layout.ranks(), comm->rank());
      for (int step = 0; step < 2; ++step) {
        StepResult measured = engine.step(testing::token_source(config.vocab, config.seq_len, 0),
                                          layout.global_batch * config.seq_len, 1e-3);
        measured.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        const std::string where = fmt::format("{}, rank {}", layout.to_string(), comm->rank());
        EXPECT_EQ(measured.memory.peak.bytes, predicted.memory.peak.bytes) << where;
        EXPECT_EQ(measured.memory.peak_total, predicted.memory.peak_total) << where;
        EXPECT_EQ(measured.sent_bytes, predicted.sent_bytes) << where;
      }
    });
  }
}

TEST(PipelineLayouts, ACheckpointOfAnyLayoutResumesUnderAnyOther) {
  const testing::TemporaryFolder folder;
  const Outcome expected = run({}, 6);
  const std::vector<Layout> chain = {
      {.stages = 4, .data = 2, .zero = 3}, {.data = 2, .zero = 1}, {.stages = 2, .data = 2, .recompute = 1}};
  std::int64_t step = 0;
  for (const Layout& layout : chain) {
    Outcome outcome;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(layout.model()), comm, layout.options());
      if (step > 0) load_state(engine, folder.path(), StateParts::kAll);
      engine.set_steps_done(step);
      const StepResult last = train(engine, layout, step + 2);
      comm->barrier();  // all ranks have read before the files are replaced
      save_state(engine, folder.path());
      const Outcome mine = outcome_of(engine, layout, last);
      if (comm->rank() == 0) outcome = mine;
    });
    step += 2;
    if (step == 6) {
      EXPECT_TRUE(outcome == expected) << layout.to_string();
    }
  }
}

// The message of a job whose data source fails, or stalls, on one rank.
std::string failure_of(const Layout& layout, double timeout_s,
                       const std::function<void(int, int)>& before_read) {
  const GptConfig config = layout.model();
  EngineOptions options = layout.options();
  options.timeout_s = timeout_s;
  try {
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(config), comm, options);
      const BatchSource tokens = testing::token_source(config.vocab, config.seq_len, 0);
      int reads = 0;
      engine.step(
          [&](std::int64_t first, std::int64_t count) {
            before_read(comm->rank(), reads++);
            return tokens(first, count);
          },
          layout.global_batch * config.seq_len, 1e-2);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing failed";
}

TEST(PipelineLayouts, ARankThatFailsIsNamedWithItsAction) {
  const std::string message = failure_of({.stages = 4}, 0, [](int rank, int read) {
    TRIREME_CHECK(rank != 3 || read != 2, "the disk is gone");
  });
  EXPECT_EQ(message.find("rank 3, step 1, action "), 0u) << message;
  EXPECT_NE(message.find("Forward unit 7 micro-batch 2) of block 'head': the disk is gone"),
            std::string::npos)
      << message;
}

// The other ranks are late, too, because they wait for it; the first to time out reports for all.
TEST(PipelineLayouts, ARankThatStallsIsNamedByTheOthers) {
  const std::string message = failure_of({.stages = 2}, 1, [](int rank, int read) {
    if (rank == 1 && read == 1) std::this_thread::sleep_for(std::chrono::milliseconds(4500));
  });
  EXPECT_NE(message.find("the job is held up (EngineOptions::timeout_s = 1) by rank 1 in step 1, action "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("(Forward unit 7 micro-batch 1) of block 'head' for "), std::string::npos)
      << message;
  EXPECT_NE(message.find("while\n  rank 0 in step 1, action "), std::string::npos) << message;
  EXPECT_NE(message.find("of block 'blocks.2', waiting for rank 1 for "), std::string::npos) << message;
}

TEST(PipelineLayouts, AnEvaluationsPlanIsValidatedToo) {
  const Layout layout{.stages = 2};
  const GptConfig config = layout.model();
  EngineOptions options = layout.options();
  options.rewrite_plan = [](StepPlan& plan) {
    std::vector<Action>& actions = plan.ranks[0].actions;
    if (std::ranges::find(actions, ActionKind::kOptimStep, &Action::kind) != actions.end()) return;
    std::erase_if(
        actions, [](const Action& a) { return a.kind == ActionKind::kSendActivation && a.micro_batch == 0; });
  };
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(config), comm, options);
    try {
      engine.evaluate(testing::token_source(config.vocab, config.seq_len, 0), 4, 4 * config.seq_len);
      ADD_FAILURE() << "the plan without a send was not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("RecvActivation"), std::string::npos) << error.what();
    }
  });
}

TEST(PipelineLayouts, WhatCannotBeIsRefused) {
  const auto refused = [](Layout layout, const char* named) {
    layout.tied = false;
    EngineOptions options = layout.options();
    try {
      const LocalWorld world(1);
      Engine engine(build_gpt(layout.model()), world.communicator(0), options);
      ADD_FAILURE() << "accepted: " << layout.to_string();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  };
  refused({.stages = 2}, "Layout::pipeline = 2 stages cannot share 1 rank(s)");
  refused({.chunks = 2}, "Layout::chunks = 2");
  EXPECT_THROW(StageMap::even({.num_units = 8, .pipeline = 3, .chunks = 3}), Error);
  EXPECT_THROW(StageMap::given({.num_units = 8, .pipeline = 3}, {4}), Error);
  EXPECT_THROW(StageMap::given({.num_units = 8, .pipeline = 3}, {4, 4}), Error);
  EXPECT_THROW(StageMap::given({.num_units = 8, .pipeline = 3}, {4, 8}), Error);
}

// Runs a step that overflows, and searches for the gradient that is not finite. Returns the name that each
// rank finds. Checks that the search needs no more memory than a step, so that a job survives an overflow.
std::vector<std::string> names_after_overflow(const Layout& layout, DType grad_dtype) {
  const GptConfig config = layout.model();
  std::vector<std::string> named;
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    EngineOptions options = layout.options();
    options.precision = Precision(PrecisionMode::kFp16);
    options.precision.grad_dtype = grad_dtype;
    options.loss_scale = {.kind = LossScaleConfig::Kind::kStatic, .initial = 3e38f};
    Engine engine(build_gpt(config), comm, options);
    const auto source = testing::token_source(config.vocab, config.seq_len, 0);
    const StepResult result = engine.step(source, layout.global_batch * config.seq_len, 1e-2);
    EXPECT_TRUE(result.skipped);
    engine.context().allocator->reset_peak();
    const auto found = engine.find_non_finite_gradient(result, source, layout.global_batch * config.seq_len);
    EXPECT_LE(engine.context().allocator->stats().peak_total, result.memory.peak_total)
        << layout.to_string() << ", gradients in " << name(grad_dtype) << ", rank " << comm->rank();
    ASSERT_TRUE(found.has_value());
    const std::lock_guard lock(mutex);
    named.push_back(fmt::format("{} {} {}", found->block, found->parameter, found->micro_batch));
  });
  return named;
}

constexpr std::int64_t kMerged = 1 << 20;  // every block of a stage in one group

// A gradient that is not finite is found where it is computed, on any stage.
TEST(PipelineLayouts, ANonFiniteGradientIsNamedTheSame) {
  std::vector<std::string> named;
  for (const Layout& layout :
       {Layout{}, Layout{.group_min_bytes = kMerged}, Layout{.stages = 4, .data = 2},
        Layout{.stages = 2, .zero = 3}, Layout{.stages = 2, .data = 2, .zero = 3, .group_min_bytes = kMerged},
        Layout{.data = 2, .recompute = 2, .group_min_bytes = kMerged},
        Layout{.stages = 4, .schedule = kZeroBubbleH1}}) {
    for (const DType grad_dtype : {DType::kFloat32, DType::kFloat16}) {
      for (std::string& name : names_after_overflow(layout, grad_dtype)) named.push_back(std::move(name));
    }
  }
  EXPECT_FALSE(named.empty());
  for (const std::string& name : named) EXPECT_EQ(name, named[0]);
}

// The step's peak is in the backward of a merged group, while activations of its other blocks are alive.
TEST(PipelineLayouts, TheSearchForAGradientNeedsNoMoreThanAStep) {
  for (const int zero : {0, 2}) {
    const Layout layout{.stages = 4,
                        .data = 2,
                        .zero = zero,
                        .cut = {1, 4, 6},
                        .group_min_bytes = kMerged,
                        .gpt = {.layers = 6, .hidden = 13, .heads = 1, .vocab = 301, .seq_len = 33},
                        .global_batch = 12,
                        .accumulate_unsharded = true};
    EXPECT_FALSE(names_after_overflow(layout, DType::kFloat16).empty());
  }
}

}  // namespace
}  // namespace trireme
