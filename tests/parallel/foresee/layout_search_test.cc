#include "parallel/foresee/layout_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "models/gpt.h"
#include "models/resnet.h"
#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/layout/block_work.h"
#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

class LayoutSearch : public ::testing::Test {
 protected:
  LayoutSearch() {
    const GptConfig config{
        .layers = 4, .hidden = 64, .heads = 4, .vocab = 128, .seq_len = 32, .tensor_chunks = 2};
    job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
    job_.options.global_batch = 16;
    job_.options.micro_batch = 2;
    job_.sample = {.input = {32}, .target = {32}};
    job_.num_ranks = 4;
    cluster_.devices[0].peak_tflops = {{"fp32", 10}};
  }
  FoundLayouts search(std::int64_t limit, LayoutSearchOptions options = {}) {
    options.open = open_;
    return search_layouts(job_, cluster_, cluster_.devices[0], limit, options);
  }

  /// Fixes the fields `names` to their values in `layout` for later searches.
  void fix(const Layout& layout, const std::vector<std::string>& names) {
    job_.options.layout = layout;
    open_ = searched_fields();
    for (const std::string& name : names) open_.erase(name);
  }

  Cluster cluster_ = testing::small_cluster();
  PlannedJob job_;
  OpenFields open_ = searched_fields();
};

const std::vector<std::string> kAllButAccumulation = {"tensor", "pipeline", "zero", "recompute",
                                                      "recompute_every"};

TEST_F(LayoutSearch, FindsWhatTimingAllOfThemFinds) {
  const FoundLayouts all = search(kNoLimit, {.most = 1000});
  const FoundLayouts best = search(kNoLimit, {.most = 5});
  EXPECT_EQ(all.num_candidates, best.num_candidates);
  EXPECT_EQ(all.num_timed + all.num_refused, all.num_candidates);
  EXPECT_LE(best.num_timed, all.num_timed);
  ASSERT_EQ(best.best.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(best.best[i].price.step_ms, all.best[i].price.step_ms) << i;
  }
  for (std::size_t i = 1; i < all.best.size(); ++i) {
    EXPECT_GE(all.best[i].price.step_ms, all.best[i - 1].price.step_ms);
  }
}

TEST_F(LayoutSearch, TellsWhatItIsAt) {
  std::vector<SearchProgress> told;
  const FoundLayouts found =
      search(kNoLimit, {.most = 30, .on_progress = [&](const SearchProgress& at) { told.push_back(at); }});
  ASSERT_GT(told.size(), 2u);
  EXPECT_EQ(told[0].best_ms, 0);
  EXPECT_EQ(told.back().best_ms, found.best[0].price.step_ms);
  for (std::size_t i = 1; i < told.size(); ++i) {
    EXPECT_GE(told[i].open_ms, told[i - 1].open_ms);
    EXPECT_GT(told[i].num_open, 0u);
    EXPECT_LE(told[i].num_timed, found.num_timed);
  }
}

TEST_F(LayoutSearch, ThreadsChangeNothing) {
  const auto describe = [](const FoundLayouts& found) {
    std::vector<std::tuple<double, std::int64_t, int, int, int>> all;
    for (const FoundLayout& one : found.best) {
      const EngineOptions& options = one.job.options;
      all.emplace_back(one.price.step_ms, one.peak_bytes, options.layout.tensor, options.layout.pipeline,
                       static_cast<int>(options.layout.zero));
    }
    return std::pair(all, std::array{found.num_timed, found.num_too_large, found.num_refused});
  };
  const std::int64_t limit = search(kNoLimit).best[0].peak_bytes / 2;
  const auto alone = describe(search(limit, {.most = 4}));
  EXPECT_GT(alone.second[1], 0);
  EXPECT_EQ(describe(search(limit, {.most = 4, .threads = 3})), alone);
  EXPECT_EQ(describe(search(limit, {.most = 4, .threads = 100})), alone);
  // Errors other than refusals propagate.
  const LayoutSearchOptions fails{.threads = 3,
                                  .check = [](const EngineOptions&) { throw std::logic_error("other"); }};
  EXPECT_THROW(search(kNoLimit, fails), std::logic_error);
}

TEST_F(LayoutSearch, WhatAnOptimizerRefusesIsLeftOut) {
  const GptConfig config{.layers = 4, .hidden = 64, .heads = 4, .vocab = 128, .seq_len = 32};
  job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
  job_.options.optimizer.kind = OptimizerConfig::Kind::kMuon;
  job_.options.rules.separates_matrices = true;
  const FoundLayouts found = search(kNoLimit);
  ASSERT_FALSE(found.best.empty());
  EXPECT_GT(found.num_refused, 0);
  for (const FoundLayout& one : found.best) EXPECT_EQ(one.job.options.layout.zero, ZeroStage::kNone);
}

TEST_F(LayoutSearch, ALayoutHasTheTimeAndTheMemoryOfItsPlan) {
  for (const FoundLayout& found : search(kNoLimit).best) {
    const PlannedJob& job = found.job;
    EXPECT_EQ(job.options.micro_batch, 2);
    EXPECT_EQ(predict_largest_step(job.blocks, job.options, job.sample, job.num_ranks).memory.device_peak,
              found.peak_bytes);
    EXPECT_EQ(price_plan(job, engine_on_meta(job)->plan(), cluster_, cluster_.devices[0]).step_ms,
              found.price.step_ms);
  }
}

TEST_F(LayoutSearch, WhatDoesNotFitIsNotFound) {
  const FoundLayouts all = search(kNoLimit, {.most = 1000});
  std::int64_t least = kNoLimit;
  for (const FoundLayout& found : all.best) least = std::min(least, found.peak_bytes);
  const FoundLayouts few = search(least + least / 2, {.most = 1000});
  ASSERT_FALSE(few.best.empty());
  EXPECT_GT(few.num_too_large, 0);
  for (const FoundLayout& found : few.best) EXPECT_LE(found.peak_bytes, least + least / 2);
  const FoundLayouts none = search(least / 4);
  EXPECT_TRUE(none.best.empty());
  ASSERT_TRUE(none.closest);
  EXPECT_GE(none.closest_bytes, least);
}

// As in training, if parallel.pipeline_cut leaves the choice open.
TEST_F(LayoutSearch, StagesAreCutSoThatTheyFit) {
  const GptConfig config{.layers = 8, .hidden = 64, .heads = 4, .vocab = 2048, .seq_len = 32};
  job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
  fix({.pipeline = 2}, {"tensor", "pipeline", "zero", "recompute", "recompute_every", "schedule"});
  const LayoutSearchOptions one_layout{.most = 1000};
  const FoundLayouts free = search(kNoLimit, one_layout);
  ASSERT_EQ(free.best.size(), 1u);
  const std::int64_t limit = free.best[0].peak_bytes - 1;
  const MemoryCut fits = cut_within_memory(free.best[0].job, work_costs(*job_.blocks, job_.sample), limit);
  ASSERT_TRUE(fits.cut);
  const FoundLayouts found = search(limit, one_layout);
  ASSERT_EQ(found.best.size(), 1u);
  EXPECT_EQ(found.best[0].job.options.layout.cut, fits.cut->first_units());
  EXPECT_LE(found.best[0].peak_bytes, limit);
}

TEST_F(LayoutSearch, MicroBatchesVaryOnlyWhereTheyMay) {
  bool varied = false;
  for (const FoundLayout& found : search(kNoLimit, {.varies_micro_batch = true}).best) {
    varied = varied || found.job.options.micro_batch != 2;
  }
  EXPECT_TRUE(varied);
}

TEST_F(LayoutSearch, KeepsWhatIsFixed) {
  const auto all_of = [&](const Layout& layout, const std::vector<std::string>& fixed) {
    fix(layout, fixed);
    const FoundLayouts found = search(kNoLimit, {.most = 1000});
    EXPECT_GT(found.num_timed, 0);
    return found.best;
  };
  for (const FoundLayout& found :
       all_of({.pipeline = 2, .zero = ZeroStage::kGradients}, {"pipeline", "zero"})) {
    EXPECT_EQ(found.job.options.layout.pipeline, 2);
    EXPECT_EQ(found.job.options.layout.zero, ZeroStage::kGradients);
  }
  // Also values that the search would not try.
  for (const FoundLayout& found : all_of({.schedule = PipelineSchedule::kGpipe, .recompute_every = 2},
                                         {"recompute_every", "schedule"})) {
    EXPECT_EQ(found.job.options.layout.recompute_every, 2);
    if (found.job.options.layout.pipeline > 1) {
      EXPECT_EQ(found.job.options.layout.schedule, PipelineSchedule::kGpipe);
    }
  }
  for (const FoundLayout& found : all_of({.chunks = 3}, {"chunks"})) {
    EXPECT_EQ(found.job.options.layout.chunks, 3);
    EXPECT_EQ(found.job.options.layout.schedule, PipelineSchedule::kInterleaved);
  }
  for (const FoundLayout& found : all_of({.tensor = 2, .sequence = true, .recompute = Recompute::kSelective},
                                         {"tensor", "sequence", "recompute"})) {
    EXPECT_EQ(found.job.options.layout.tensor, 2);
    EXPECT_TRUE(found.job.options.layout.sequence);
    EXPECT_EQ(found.job.options.layout.recompute, Recompute::kSelective);
  }
  fix({.pipeline = 3}, {"pipeline"});
  const FoundLayouts none = search(kNoLimit);
  EXPECT_EQ(none.num_candidates, 0);
  EXPECT_FALSE(none.closest);
  fix({}, {"recompute_every", "zero"});
  const FoundLayouts large = search(1000);
  ASSERT_TRUE(large.closest);
  EXPECT_EQ(large.closest->options.layout.zero, ZeroStage::kNone);
}

TEST_F(LayoutSearch, DataRanksNeedNotDivideTheMicroBatches) {
  job_.num_ranks = 3;
  int uneven = 0;
  for (const FoundLayout& found : search(kNoLimit, {.most = 1000}).best) {
    const PlannedJob& job = found.job;
    if (job.options.layout.pipeline > 1) continue;
    ++uneven;
    EXPECT_EQ(price_plan(job, engine_on_meta(job)->plan(), cluster_, cluster_.devices[0]).step_ms,
              found.price.step_ms);
  }
  EXPECT_GE(uneven, 4);
}

// Includes odd numbers of micro-batches, which leave unequal partial sums.
TEST_F(LayoutSearch, TheLargestNeedIsThatOfAllRanks) {
  job_.num_ranks = 8;
  for (const std::int64_t micro_batches : {21, 40, 88}) {
    for (const int stages : {1, 2}) {
      for (const ZeroStage zero : {ZeroStage::kNone, ZeroStage::kGradients}) {
        EngineOptions options = job_.options;
        options.global_batch = 2 * micro_batches;
        options.layout.pipeline = stages;
        options.layout.zero = zero;
        options.layout.accumulate_unsharded = micro_batches != 40;
        std::int64_t most = 0;
        for (int rank = 0; rank < job_.num_ranks; ++rank) {
          const StepPrediction step = predict_step(job_.blocks, options, job_.sample, job_.num_ranks, rank);
          most = std::max(most, step.memory.device_peak);
        }
        const StepPrediction largest =
            predict_largest_step(job_.blocks, options, job_.sample, job_.num_ranks);
        EXPECT_EQ(largest.memory.device_peak, most) << micro_batches << " " << stages;
      }
    }
  }
}

// As in training: a limit that the job names applies to all ways to accumulate.
TEST_F(LayoutSearch, ANamedLimitIsUsedWhole) {
  fix({.zero = ZeroStage::kParameters}, kAllButAccumulation);
  const FoundLayouts free = search(kNoLimit);
  ASSERT_EQ(free.best.size(), 1u);
  EXPECT_TRUE(free.best[0].job.options.layout.keep_gathered);
  const std::int64_t limit = free.best[0].peak_bytes;
  for (const bool named : {true, false}) {
    const FoundLayouts found = search(limit, {.uses_whole_limit = named});
    ASSERT_EQ(found.best.size(), 1u);
    EXPECT_EQ(found.best[0].peak_bytes == limit, named);
    PlannedJob trained = found.best[0].job;
    trained.options = choose_accumulation(job_.blocks, trained.options, fields_by_memory(), job_.sample,
                                          job_.num_ranks, named ? limit : limit / 8 * 7);
    EXPECT_LE(found.best[0].price.step_ms, price_layout(trained, cluster_, cluster_.devices[0]).step_ms);
  }
}

// See [Note: ways to accumulate]: if everything fits, keeping both is fastest.
TEST_F(LayoutSearch, WhatKeepsMoreIsNoSlower) {
  for (const double memory_gb_s : {1000.0, 5.0}) {
    cluster_.devices[0].memory_gb_s = memory_gb_s;
    int num_choices = 0;
    for (const FoundLayout& layout : search(kNoLimit, {.most = 1000}).best) {
      PlannedJob other = layout.job;
      const std::vector<EngineOptions> choices =
          accumulation_choices(other.options, fields_by_memory(), other.num_ranks);
      if (choices.size() > 1) num_choices += static_cast<int>(choices.size());
      for (const EngineOptions& choice : choices) {
        other.options = choice;
        const double other_ms = price_layout(other, cluster_, cluster_.devices[0]).step_ms;
        EXPECT_GE(other_ms, layout.price.step_ms * (1 - 1e-6));
      }
    }
    EXPECT_GT(num_choices, 80);  // of layouts that have several
  }
}

// If both do not fit, training keeps parameters gathered, which sends the least. Here whole gradients are
// faster, because sums of pieces take time that nothing hides.
TEST_F(LayoutSearch, AccumulatesInTheFastestWayThatFits) {
  fix({.zero = ZeroStage::kParameters}, kAllButAccumulation);
  const LayoutSearchOptions options{.uses_whole_limit = true};
  const std::int64_t limit = search(kNoLimit, options).best.at(0).peak_bytes - 1;
  const FoundLayouts found = search(limit, options);
  ASSERT_EQ(found.best.size(), 1u);
  const double found_ms = found.best[0].price.step_ms;
  PlannedJob other = found.best[0].job;
  int num_fitting = 0;
  for (const EngineOptions& choice :
       accumulation_choices(other.options, fields_by_memory(), other.num_ranks)) {
    other.options = choice;
    if (!predict_within(limit, other.blocks, choice, other.sample, other.num_ranks)) continue;
    ++num_fitting;
    EXPECT_GE(price_layout(other, cluster_, cluster_.devices[0]).step_ms, found_ms * (1 - 1e-9));
  }
  EXPECT_GT(num_fitting, 1);
  other.options = choose_accumulation(other.blocks, other.options, fields_by_memory(), other.sample,
                                      other.num_ranks, limit);
  EXPECT_GT(price_layout(other, cluster_, cluster_.devices[0]).step_ms, found_ms);
}

// Convolutions have nothing to recompute selectively, and one host has no second level.
TEST_F(LayoutSearch, OfTwinsTheSimplerOneIsFound) {
  const ResNetConfig config{.stem = ResNetConfig::Stem::kCifar,
                            .bottleneck = false,
                            .units = {1, 1, 1},
                            .width = 16,
                            .classes = 10};
  job_.blocks = std::make_shared<const BlockList>(build_resnet(config));
  job_.sample = {.input = {32, 32, 3}, .input_dtype = DType::kFloat32, .target = {}};
  const FoundLayouts found = search(kNoLimit, {.most = 1000});
  ASSERT_GT(found.best.size(), 10u);
  for (const FoundLayout& one : found.best) {
    const EngineOptions& options = one.job.options;
    EXPECT_EQ(options.layout.recompute, Recompute::kNone);
    EXPECT_EQ(options.layout.exchange, Exchange::kAuto);
    const auto is_like = [&](const FoundLayout& other) {
      return &other != &one && other.peak_bytes == one.peak_bytes &&
             other.job.options.layout.pipeline == options.layout.pipeline &&
             other.job.options.layout.schedule == options.layout.schedule &&
             std::abs(other.price.step_ms - one.price.step_ms) < 1e-9 * one.price.step_ms;
    };
    EXPECT_TRUE(std::ranges::none_of(found.best, is_like));
  }
}

// Stages that must be cut for memory also keep whatever fits with that cut.
TEST_F(LayoutSearch, CutStagesAccumulateAsTrainingDoes) {
  const GptConfig config{.layers = 8, .hidden = 64, .heads = 4, .vocab = 2048, .seq_len = 32};
  job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
  fix({.pipeline = 2, .zero = ZeroStage::kParameters},
      {"tensor", "pipeline", "zero", "recompute", "recompute_every", "schedule"});
  const LayoutSearchOptions options{.uses_whole_limit = true};
  std::int64_t limit = search(kNoLimit, options).best.at(0).peak_bytes;
  int num_cut = 0;
  for (; limit > 0; limit -= limit / 50) {
    const FoundLayouts found = search(limit, options);
    if (found.best.empty()) break;
    PlannedJob job = found.best[0].job;
    if (job.options.layout.cut.empty()) continue;
    ++num_cut;
    const EngineOptions trained =
        choose_accumulation(job.blocks, job.options, fields_by_memory(), job.sample, job.num_ranks, limit);
    EXPECT_EQ(trained.layout.accumulate_unsharded, job.options.layout.accumulate_unsharded) << limit;
    EXPECT_EQ(trained.layout.keep_gathered, job.options.layout.keep_gathered) << limit;
    EXPECT_LE(found.best[0].peak_bytes, limit);
  }
  EXPECT_GT(num_cut, 0);
}

TEST_F(LayoutSearch, WhatTheCallerRefusesIsNotFound) {
  const auto check = [](const EngineOptions& options) {
    TRIREME_CHECK(options.layout.zero == ZeroStage::kNone, "no zero here");
  };
  const FoundLayouts found = search(kNoLimit, {.most = 1000, .check = check});
  EXPECT_GT(found.num_refused, 0);
  ASSERT_FALSE(found.best.empty());
  for (const FoundLayout& layout : found.best) EXPECT_EQ(layout.job.options.layout.zero, ZeroStage::kNone);
}

TEST_F(LayoutSearch, AClusterWithoutALinkIsRefused) {
  cluster_.devices[0].inside.clear();
  EXPECT_THAT([&] { search(kNoLimit); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("inside")));
}

}  // namespace
}  // namespace trireme
