#include "launcher/report/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

MemoryCounts counts(std::int64_t parameters, std::int64_t gradients, std::int64_t optimizer,
                    std::int64_t activations) {
  MemoryCounts result;
  result[MemoryCategory::kParameters] = parameters;
  result[MemoryCategory::kGradients] = gradients;
  result[MemoryCategory::kOptimizer] = optimizer;
  result[MemoryCategory::kActivations] = activations;
  return result;
}

TEST(MemoryAdvice, LargestCategoryFirst) {
  const JobConfig config{.train = {.micro_batch = 12}};
  const std::string advice = describe_remedies(counts(100, 100, 200, 600), config, 4);
  EXPECT_EQ(
      advice,
      "train.micro_batch = 6 or parallel.recompute_every = 1 would reduce activations (600 B); parallel.zero "
      "= 1 "
      "would reduce optimizer (200 B); parallel.zero = 3 would reduce parameters (100 B); parallel.zero = 2 "
      "would reduce gradients (100 B)");
}

TEST(MemoryAdvice, WhatIsSmallOrDoneIsNotAdvised) {
  const JobConfig config{.train = {.micro_batch = 1}, .parallel = {.zero = 2, .recompute_every = 1}};
  EXPECT_THAT(describe_remedies(counts(500, 100, 400, 900), config, 2),
              StartsWith("parallel.zero = 3 would reduce parameters"));
  EXPECT_THAT(describe_remedies(counts(500, 5, 5, 5), JobConfig{}, 1),
              HasSubstr("parallel.zero = 3 on more ranks"));
  EXPECT_THAT(describe_remedies(counts(500, 5, 5, 5), JobConfig{}, 2), Not(HasSubstr("micro_batch")));
}

TEST(MemoryAdvice, WhatIsKeptOverMicroBatchesNeedNotBe) {
  JobConfig config{.train = {.micro_batch = 1}, .parallel = {.zero = 3, .recompute_every = 1}};
  config.parallel.accumulate_unsharded = true;
  config.parallel.keep_gathered = true;
  MemoryCounts needed = counts(1, 40, 1, 1);
  needed[MemoryCategory::kCommunication] = 50;
  EXPECT_EQ(describe_remedies(needed, config, 2),
            "parallel.keep_gathered = false would reduce communication (50 B); "
            "parallel.accumulate_unsharded = false would reduce gradients (40 B)");
  config.parallel.accumulate_unsharded = config.parallel.keep_gathered = std::nullopt;
  EXPECT_THAT(describe_remedies(needed, config, 2), HasSubstr("more ranks or a device with more memory"));
}

TEST(MemoryAdvice, NothingIsLeft) {
  const JobConfig config{.train = {.micro_batch = 1}, .parallel = {.zero = 3, .recompute_every = 1}};
  EXPECT_THAT(describe_remedies(counts(1, 1, 1, 1), config, 2),
              HasSubstr("more ranks or a device with more memory"));
}

}  // namespace
}  // namespace trireme
