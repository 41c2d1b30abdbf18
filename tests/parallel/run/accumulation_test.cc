// Keeping gradients or parameters over a step's micro-batches changes memory and traffic as predicted, and no
// bit. Also tests the choice of "auto".
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <tuple>

#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/predict.h"
#include "tests/support/pipeline_layout.h"

namespace trireme {
namespace {

using enum PipelineSchedule;
using testing::PipelineLayout;
using testing::PipelineOutcome;

constexpr std::int64_t kSteps = 2;

// Eight blocks, for four stages of two.
PipelineLayout small(PipelineLayout layout) {
  layout.gpt = {.layers = 6, .hidden = 8, .heads = 2, .vocab = 16, .seq_len = 4, .dropout = 0.1f};
  layout.global_batch = 24;  // two data ranks have 6 micro-batches: 4 and 2
  layout.micro_batch = 2;
  return layout;
}

const PipelineOutcome& of_one_rank(bool tied) {
  static std::map<bool, PipelineOutcome> known;
  const auto found = known.find(tied);
  if (found != known.end()) return found->second;
  return known[tied] = testing::train_and_evaluate(small({.tied = tied}), kSteps);
}

// Trains on all ranks. The memory and traffic of each step must equal the prediction.
PipelineOutcome train_as_predicted(const PipelineLayout& layout) {
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  const EngineOptions options = layout.options();
  PipelineOutcome outcome;
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted =
        predict_step(blocks, options, *options.sample, layout.ranks(), comm->rank());
    StepResult last;
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      last = testing::train(engine, layout, step);
      last.memory.peak[MemoryCategory::kWorkspace] = 0;
      const std::lock_guard lock(mutex);
      const std::string where = fmt::format("{}, rank {}", layout.to_string(), comm->rank());
      EXPECT_EQ(last.memory.peak.bytes, predicted.memory.peak.bytes) << where;
      EXPECT_EQ(last.memory.peak_total, predicted.memory.peak_total) << where;
      EXPECT_EQ(last.sent_bytes, predicted.sent_bytes) << where;
    }
    const PipelineOutcome mine = testing::outcome_of(engine, layout, last);
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

void expect_same_bits(PipelineLayout layout) {
  layout = small(layout);
  for (const bool kept : {false, true}) {
    for (const bool unsharded : {false, true}) {
      if (kept && layout.zero < 3) continue;
      layout.keep_gathered = kept;
      layout.accumulate_unsharded = unsharded;
      EXPECT_TRUE(train_as_predicted(layout) == of_one_rank(layout.tied)) << layout.to_string();
    }
  }
}

TEST(Accumulation, WhatIsKeptChangesNoBitInAnySchedule) {
  for (const auto schedule : {kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1}) {
    for (const int zero : {2, 3}) {
      for (const int recompute : {0, 1}) {
        expect_same_bits({.stages = 2,
                          .data = 2,
                          .schedule = schedule,
                          .chunks = schedule == kInterleaved ? 2 : 1,
                          .zero = zero,
                          .recompute = recompute});
      }
    }
  }
  expect_same_bits({.stages = 4, .data = 2, .schedule = kZeroBubbleH1, .zero = 3, .tied = false});
}

TEST(Accumulation, WhatIsKeptChangesNoBitWithPrefetchAndMergedGroups) {
  for (const int prefetch : {0, 2, 100}) {
    for (const std::int64_t group_min_bytes : {std::int64_t{0}, std::int64_t{1} << 20}) {
      for (const bool tied : {true, false}) {
        PipelineLayout layout{.data = 3, .zero = 3, .recompute = prefetch == 2 ? 2 : 0, .tied = tied};
        layout.prefetch = prefetch;
        layout.group_min_bytes = group_min_bytes;
        expect_same_bits(layout);
      }
    }
  }
}

struct Job {
  std::shared_ptr<const BlockList> blocks;
  EngineOptions options;
  SampleSpec sample;
  int ranks = 1;

  StepPrediction predict(bool kept, bool unsharded) const {
    EngineOptions chosen = options;
    chosen.layout.keep_gathered = kept;
    chosen.layout.accumulate_unsharded = unsharded;
    return predict_largest_step(blocks, chosen, sample, ranks);
  }
  std::tuple<bool, bool> choose(std::int64_t limit_bytes, const Layout& given = {},
                                const std::vector<std::string>& fixed = {}) const {
    EngineOptions asked = options;
    asked.layout.keep_gathered = given.keep_gathered;
    asked.layout.accumulate_unsharded = given.accumulate_unsharded;
    OpenFields open = fields_by_memory();
    for (const std::string& name : fixed) open.erase(name);
    const Layout chosen = choose_accumulation(blocks, asked, open, sample, ranks, limit_bytes).layout;
    return {chosen.keep_gathered, chosen.accumulate_unsharded};
  }
};

Job job_of(ZeroStage zero, int ranks, int micro_batches, PrecisionMode mode = PrecisionMode::kFp32) {
  GptConfig config = testing::tiny_gpt_config();
  config.layers = 4;
  return {.blocks = std::make_shared<const BlockList>(build_gpt(config)),
          .options = {.global_batch = ranks * micro_batches,
                      .layout = {.zero = zero},
                      .precision = Precision(mode)},
          .sample = {.input = {config.seq_len}, .target = {config.seq_len}},
          .ranks = ranks};
}

// Kept parameters first, as in [Note: order of accumulation].
constexpr std::tuple<bool, bool> kOrder[] = {{true, true}, {true, false}, {false, true}, {false, false}};

TEST(Accumulation, EachChoiceInTheOrderSendsLessThanTheNext) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    for (const int ranks : {2, 3, 4}) {
      for (int m = 2; m <= 9; ++m) {
        const Job job = job_of(ZeroStage::kParameters, ranks, m, mode);
        std::int64_t before = 0;
        for (const auto& [kept, unsharded] : kOrder) {
          const std::int64_t sent = job.predict(kept, unsharded).sent_bytes;
          EXPECT_GT(sent, before) << ranks << " ranks, " << m << " micro-batches";
          before = sent;
        }
      }
    }
  }
}

TEST(Accumulation, AutoTakesTheFirstOfTheOrderThatFits) {
  const Job job = job_of(ZeroStage::kParameters, 4, 4);
  std::vector<std::int64_t> peaks;
  for (const auto& [kept, unsharded] : kOrder) {
    peaks.push_back(job.predict(kept, unsharded).memory.peak_total);
  }
  const auto first_within = [&](std::int64_t limit) {
    for (std::size_t i = 0; i < peaks.size(); ++i) {
      if (peaks[i] <= limit) return kOrder[i];
    }
    return kOrder[3];
  };
  for (const std::int64_t peak : peaks) {
    for (const std::int64_t limit : {peak, peak - 1}) {
      EXPECT_EQ(job.choose(limit), first_within(limit)) << limit;
    }
  }
  EXPECT_EQ(job.choose(0), std::tuple(false, false));
  const std::int64_t plenty = std::int64_t{1} << 40;
  EXPECT_EQ(job.choose(plenty), std::tuple(true, true));
  // A fixed choice stays, whether or not it fits.
  EXPECT_EQ(job.choose(plenty, {}, {"keep_gathered"}), std::tuple(false, true));
  EXPECT_EQ(job.choose(plenty, {}, {"accumulate_unsharded"}), std::tuple(true, false));
  EXPECT_EQ(job.choose(0, {.accumulate_unsharded = true}, {"accumulate_unsharded"}), std::tuple(false, true));
  EXPECT_EQ(job.choose(0, {.accumulate_unsharded = true, .keep_gathered = true},
                       {"accumulate_unsharded", "keep_gathered"}),
            std::tuple(true, true));
}

// With one micro-batch or one data rank, and at stages without pieces, nothing is kept.
TEST(Accumulation, AutoKeepsNothingWhereNothingIsSaved) {
  const std::int64_t plenty = std::int64_t{1} << 40;
  EXPECT_EQ(job_of(ZeroStage::kParameters, 4, 1).choose(plenty), std::tuple(false, false));
  EXPECT_EQ(job_of(ZeroStage::kParameters, 1, 4).choose(plenty), std::tuple(false, false));
  EXPECT_EQ(job_of(ZeroStage::kOptimizer, 4, 4).choose(plenty), std::tuple(false, false));
  EXPECT_EQ(job_of(ZeroStage::kGradients, 4, 4).choose(plenty), std::tuple(false, true));
  Job stages = job_of(ZeroStage::kParameters, 2, 4);
  stages.options.layout.pipeline = 2;
  EXPECT_EQ(stages.choose(plenty), std::tuple(false, false));
}

}  // namespace
}  // namespace trireme
