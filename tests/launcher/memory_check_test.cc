#include "launcher/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/build.h"
#include "tests/launcher/error_matchers.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

JobConfig synthetic_job() {
  JobConfig config;
  config.data.kind = "synthetic";
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 64};
  config.train = {.global_batch = 16, .micro_batch = 8};
  return config;
}

std::int64_t peak(JobConfig config, std::int64_t micro_batch) {
  config.train.micro_batch = micro_batch;
  return check_memory(config, build_blocks(config.model), 1, 0, std::int64_t{1} << 40).memory.peak_total;
}

TEST(MemoryCheck, WhatFitsPasses) {
  const JobConfig config = synthetic_job();
  const auto blocks = build_blocks(config.model);
  const std::int64_t needed = peak(config, 8);
  EXPECT_NO_THROW(check_memory(config, blocks, 1, 0, needed));
  EXPECT_THROW(check_memory(config, blocks, 1, 0, needed - 1), Error);
}

TEST(MemoryCheck, RefusalNamesTheMicroBatchThatFits) {
  const JobConfig config = synthetic_job();
  ASSERT_LT(peak(config, 2), peak(config, 4));
  const std::string message =
      error_message([&] { check_memory(config, build_blocks(config.model), 1, 0, peak(config, 2)); });
  EXPECT_THAT(message, HasSubstr("the job does not fit"));
  EXPECT_THAT(message, HasSubstr("activations"));
  EXPECT_THAT(message, HasSubstr("train.micro_batch = 2 would fit"));
}

TEST(MemoryCheck, NothingFits) {
  JobConfig config = synthetic_job();
  config.parallel.memory_limit = 1000;
  EXPECT_EQ(rank_memory_bytes(config, 2), 1000);
  const std::string message = error_message(
      [&] { check_memory(config, build_blocks(config.model), 1, 0, rank_memory_bytes(config, 1)); });
  EXPECT_THAT(message, HasSubstr("parallel.memory_limit"));
  EXPECT_THAT(message, HasSubstr("no smaller micro-batch, recompute or sharding"));
}

TEST(MemoryCheck, RanksOfAMachineShareIt) {
  const JobConfig config = synthetic_job();
  EXPECT_EQ(rank_memory_bytes(config, 2), rank_memory_bytes(config, 1) / 2);
}

}  // namespace
}  // namespace trireme
