// The choices for "auto": within the limit of the job, of the machine, and of the rank with the least memory.
#include "launcher/job/accumulation.h"
#include "launcher/config/field_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "launcher/host/agreement.h"
#include "launcher/job/build.h"
#include "parallel/comm/local.h"
#include "tests/launcher/job/cut_engine_options.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;

JobConfig sharded_job(std::int64_t zero) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 1};
  config.parallel.layout.zero = static_cast<ZeroStage>(zero);
  return resolve(config);
}

std::int64_t peak_with_all_kept(JobConfig config) {
  config.parallel.settle("accumulate_unsharded", true);
  config.parallel.settle("keep_gathered", true);
  return predict_largest_step(build_blocks(config.model), cut_engine_options(config), sample_spec(config),
                              kRanks)
      .memory.peak_total;
}

std::string chosen(const JobConfig& config, const MemoryLimit& limit) {
  return describe_accumulation(
      cut_engine_options(with_accumulation(config, build_blocks(config.model), kRanks, limit)), kRanks);
}

constexpr const char* kAll = "gradients are reduced once a step, parameters gathered once a step";

TEST(AccumulationOfAJob, AnEighthOfAMachineIsLeft) {
  JobConfig config = sharded_job(3);
  const std::int64_t peak = peak_with_all_kept(config);
  const std::int64_t machine = (peak + 6) / 7 * 8;
  EXPECT_EQ(chosen(config, {.bytes = machine}), kAll);
  EXPECT_NE(chosen(config, {.bytes = machine - 8}), kAll);
  config.parallel.memory_limit = peak;
  EXPECT_EQ(chosen(config, {.bytes = peak}), kAll);
  EXPECT_NE(chosen(config, {.bytes = peak - 1}), kAll);
}

TEST(AccumulationOfAJob, SaysWhatMakesADifference) {
  const MemoryLimit plenty{.bytes = std::int64_t{1} << 40}, nothing{.bytes = 0};
  EXPECT_EQ(chosen(sharded_job(1), plenty), "");
  EXPECT_EQ(chosen(sharded_job(2), plenty), "gradients are reduced once a step");
  EXPECT_EQ(chosen(sharded_job(3), nothing),
            "gradients are reduced every micro-batch, parameters gathered for every use");
  JobConfig one_each = sharded_job(3);
  one_each.train.global_batch = kRanks;
  EXPECT_EQ(chosen(one_each, plenty), "");
  JobConfig settled = sharded_job(3);
  settled.parallel.settle("accumulate_unsharded", false);
  EXPECT_EQ(chosen(settled, plenty),
            "gradients are reduced every micro-batch, parameters gathered once a step");
}

// Ranks on different machines make the same choice, by the smallest limit.
TEST(AccumulationOfAJob, RanksAgree) {
  const JobConfig config = sharded_job(3);
  const auto choose = [&](std::int64_t least) {
    std::vector<ParallelSection> sections(kRanks);
    run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
      const MemoryLimit limit{.bytes = comm->rank() == 2 ? least : std::int64_t{1} << 40};
      sections[static_cast<std::size_t>(comm->rank())] =
          with_accumulation(config, build_blocks(config.model), comm, limit).parallel;
    });
    for (const ParallelSection& section : sections) {
      EXPECT_EQ(section.layout, sections[0].layout);
      EXPECT_TRUE(section.open.empty());
    }
    return std::pair(sections[0].layout.accumulate_unsharded, sections[0].layout.keep_gathered);
  };
  EXPECT_EQ(choose(std::int64_t{1} << 40), std::pair(true, true));
  EXPECT_EQ(choose(1), std::pair(false, false));
}

TEST(AccumulationOfAJob, ABatchThatDoesNotDivideIsRefusedOnAllRanks) {
  JobConfig config = sharded_job(2);
  config.train.global_batch = 15;
  config.train.micro_batch = 2;
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    try {
      with_accumulation(config, build_blocks(config.model), comm, {.bytes = 1});
      ADD_FAILURE() << "accepted";
    } catch (const AgreedError& error) {
      EXPECT_THAT(with_keys(error.what()), HasSubstr("train.global_batch"));
    }
  });
}

}  // namespace
}  // namespace trireme
