#include "launcher/job/memory_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/job/build.h"
#include "parallel/comm/local.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/launcher/job/cut_engine_options.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// State exceeds activations: 0.6 MiB of parameters.
JobConfig synthetic_job() {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 4, .hidden = 64, .heads = 2, .vocab = 64, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 4};
  return resolve(config);
}

StepPrediction predict(const JobConfig& config, int ranks) {
  return predict_step(build_blocks(config.model), cut_engine_options(config), sample_spec(config), ranks, 0);
}

std::int64_t peak(const JobConfig& config, int ranks) {
  return predict(config, ranks).memory.peak_total;
}

JobFit fit(const JobConfig& config, int ranks, std::int64_t limit) {
  return fit_memory(planned_job(config, build_blocks(config.model), ranks), predict(config, ranks),
                    MemoryLimit{limit, "parallel.memory_limit"});
}

JobConfig with(std::int64_t zero, std::int64_t recompute, std::int64_t micro_batch) {
  JobConfig config = synthetic_job();
  config.parallel.layout.zero = static_cast<ZeroStage>(zero);
  config.parallel.layout.recompute_every = recompute;
  config.train.micro_batch = micro_batch;
  return config;
}

TEST(MemoryFit, WhatFitsPassesToTheByte) {
  const JobConfig config = synthetic_job();
  const auto blocks = build_blocks(config.model);
  const std::int64_t needed = peak(config, 1);
  EXPECT_NO_THROW(check_memory(config, blocks, 1, 0, {needed, ""}));
  EXPECT_THROW(check_memory(config, blocks, 1, 0, {needed - 1, ""}), Error);
  EXPECT_THAT(to_text(fit(config, 1, needed)), HasSubstr("fits: "));
}

TEST(MemoryFit, LargerZeroComesFirst) {
  for (const std::int64_t zero : {1, 2, 3}) {
    const JobFit found = fit(synthetic_job(), 4, peak(with(zero, 0, 4), 4));
    ASSERT_TRUE(found.remedy);
    EXPECT_THAT(found.remedy->changes, ElementsAre(Change{"zero", zero}));
    EXPECT_EQ(found.remedy->peak_bytes, peak(with(zero, 0, 4), 4));
  }
}

TEST(MemoryFit, ThenRecomputeThenTheMicroBatchThenMoreRanks) {
  // Here activations exceed the state.
  const auto with = [](std::int64_t zero, std::int64_t recompute, std::int64_t micro_batch) {
    JobConfig config = trireme::with(zero, recompute, micro_batch);
    config.model.hidden = 32;
    config.model.seq_len = 128;
    return config;
  };
  const JobFit recompute = fit(with(0, 0, 4), 1, peak(with(0, 2, 4), 1));
  ASSERT_TRUE(recompute.remedy);
  EXPECT_THAT(recompute.remedy->changes, ElementsAre(Change{"recompute_every", 2}));

  const JobFit both = fit(with(0, 0, 4), 4, peak(with(3, 1, 4), 4));
  ASSERT_TRUE(both.remedy);
  EXPECT_THAT(both.remedy->changes, ElementsAre(Change{"zero", 3}, Change{"recompute_every", 1}));

  const JobFit smaller = fit(with(0, 1, 4), 1, peak(with(0, 1, 2), 1));
  ASSERT_TRUE(smaller.remedy);
  EXPECT_THAT(smaller.remedy->changes, ElementsAre(Change{"micro_batch", 2}));

  const JobFit more = fit(with(3, 1, 1), 2, peak(with(3, 1, 1), 8));
  ASSERT_TRUE(more.remedy);
  EXPECT_THAT(more.remedy->changes, ElementsAre(Change{"num_ranks", 8}));
  EXPECT_EQ(more.remedy->job.num_ranks, 8);
}

TEST(MemoryFit, TextNamesMomentCategoriesLimitAndRemedy) {
  const std::string text = to_text(fit(synthetic_job(), 4, peak(with(2, 0, 4), 4)));
  EXPECT_THAT(text, HasSubstr("the job does not fit: a rank needs"));
  EXPECT_THAT(text, HasSubstr("optimizer"));
  EXPECT_THAT(text, HasSubstr("(parallel.memory_limit)"));
  EXPECT_THAT(text, HasSubstr("micro-batch 0"));
  EXPECT_THAT(text, HasSubstr("with parallel.zero = 2 it fits, in"));
}

// In a deep model, segments of one block keep more inputs than they save.
TEST(MemoryFit, LongerSegmentsMayBeTheOnlyRemedy) {
  JobConfig config = synthetic_job();
  config.model = {.layers = 96, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 1024};
  config.train = {.global_batch = 1, .micro_batch = 1};
  config = resolve(config);
  const auto with_segments = [&](std::int64_t k) {
    JobConfig changed = config;
    changed.parallel.layout.recompute_every = k;
    return peak(changed, 1);
  };
  ASSERT_LT(with_segments(2), with_segments(1));
  ASSERT_LT(with_segments(2), with_segments(4));
  const JobFit found = fit(config, 1, with_segments(2));
  ASSERT_TRUE(found.remedy);
  EXPECT_THAT(found.remedy->changes, ElementsAre(Change{"recompute_every", 2}));
}

// Rank 1 of two begins with an odd micro-batch and keeps more partial sums than rank 0.
TEST(MemoryFit, RemediesHoldForEveryRank) {
  JobConfig config = synthetic_job();
  config.train = {.global_batch = 9, .micro_batch = 1};
  std::int64_t largest = 0;
  const auto peak_of = [&](std::int64_t zero, int rank) {
    JobConfig changed = config;
    changed.parallel.layout.zero = static_cast<ZeroStage>(zero);
    return predict_step(build_blocks(config.model), cut_engine_options(changed), sample_spec(config), 3, rank)
        .memory.peak_total;
  };
  ASSERT_NE(peak_of(1, 0), peak_of(1, 1));
  for (int rank = 0; rank < 3; ++rank) largest = std::max(largest, peak_of(1, rank));
  const JobFit found = fit(config, 3, largest - 1);
  ASSERT_TRUE(found.remedy);
  EXPECT_NE(found.remedy->changes.front(), (Change{"zero", 1}));
}

TEST(MemoryFit, ALimitTooSmallForABlockNamesIt) {
  JobConfig config = synthetic_job();
  config.model.vocab = 4096;  // logits: the head needs the most memory by far
  const JobFit found = fit(config, 2, 200 << 10);
  EXPECT_FALSE(found.remedy);
  ASSERT_TRUE(found.smallest);
  EXPECT_EQ(found.smallest->block, "head");
  EXPECT_THAT(to_text(found), HasSubstr("make it fit: even"));
  EXPECT_THAT(to_text(found), HasSubstr("while block 'head' runs"));
  EXPECT_THAT(to_text(found), Not(HasSubstr("it fits")));
}

// A refusal names the memory that would fit: the peak of the whole layout, not at the time of its largest
// block.
TEST(MemoryFit, WhereNothingFitsTheNeedIsThatOfTheWholeLayout) {
  JobConfig config = synthetic_job();
  config.model.vocab = 4096;
  config.train = {.global_batch = 4, .micro_batch = 1};
  config.parallel.layout.zero = ZeroStage::kParameters;
  config.parallel.layout.recompute_every = 1;
  const JobFit found = fit(config, 4, 200 << 10);
  ASSERT_TRUE(found.smallest);
  const SmallestLayout& smallest = *found.smallest;
  EXPECT_LT(smallest.block_bytes, smallest.peak_bytes);
  EXPECT_THAT(to_text(found), HasSubstr("a rank needs " + format_bytes(smallest.peak_bytes)));
  EXPECT_THAT(to_text(found), HasSubstr(format_bytes(smallest.block_bytes) + " of activations"));
  EXPECT_FALSE(fit(config, 4, smallest.peak_bytes - 1).remedy);
  EXPECT_EQ(fit(config, 4, smallest.peak_bytes - 1).smallest->peak_bytes, smallest.peak_bytes);
  const JobFit enough = fit(config, 4, smallest.peak_bytes);
  EXPECT_TRUE(enough.fits() || enough.remedy);
}

// The plan's limit is the allocator's limit: the predicted size trains, one byte less does not.
TEST(MemoryFit, TheAllocatorEnforcesTheLimit) {
  const JobConfig config = synthetic_job();
  const auto blocks = build_blocks(config.model);
  for (const int ranks : {1, 4}) {
    for (const std::int64_t zero : {0, 3}) {
      EngineOptions options = cut_engine_options(with(zero, 0, 4));
      const std::int64_t needed = peak(with(zero, 0, 4), ranks);
      const auto train = [&] {
        run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
          Engine engine(blocks, comm, options);
          for (int step = 0; step < 2; ++step) {
            engine.step(testing::token_source(64, 16, 0), 16 * 16, 1e-3);
          }
        });
      };
      options.memory_limit = needed;
      EXPECT_NO_THROW(train()) << ranks << " ranks, zero " << zero;
      options.memory_limit = needed - 1;
      EXPECT_THAT(error_message(train, ErrorCode::kOutOfMemory), HasSubstr("under the limit of"));
    }
  }
}

TEST(MemoryFit, RanksOfAMachineShareIt) {
  JobConfig config = synthetic_job();
  const Device cpu{DeviceType::kCpu, 0};
  EXPECT_EQ(memory_limit(config, cpu, 2).bytes, memory_limit(config, cpu, 1).bytes / 2);
  config.parallel.memory_limit = 1000;
  EXPECT_EQ(memory_limit(config, cpu, 2).bytes, 1000);
  EXPECT_EQ(memory_limit(config, cpu, 2).source, "parallel.memory_limit");
}

// The limit of a rank is its share of the machine: more ranks on it would lower the limit.
TEST(MemoryFit, MoreRanksWantMoreMachines) {
  JobFit fit;
  fit.limit_bytes = 1 << 20;
  fit.limit.ranks_a_machine = 2;
  fit.num_ranks = 2;
  fit.peak_bytes = 2 << 20;
  fit.remedy.emplace();
  fit.remedy->job.num_ranks = 8;
  fit.remedy->changes = {{"num_ranks", 8}};
  EXPECT_THAT(to_text(fit),
              HasSubstr("with 8 ranks, no more than 2 of them on a machine like this one, it fits"));
  fit.remedy->job.num_ranks = 2;
  EXPECT_THAT(to_text(fit), Not(HasSubstr("on a machine")));
  fit.remedy->job.num_ranks = 8;
  fit.limit.ranks_a_machine = 0;
  EXPECT_THAT(to_text(fit), Not(HasSubstr("on a machine")));
}

}  // namespace
}  // namespace trireme
