#include "launcher/config/field_keys.h"

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

std::string advice_on(const MemoryCounts& needed, const EngineOptions& options, int data_ranks) {
  return describe(advise(needed, options), data_ranks);
}

TEST(MemoryAdvice, LargestCategoryFirst) {
  const std::string advice = advice_on(counts(100, 100, 200, 600), {.micro_batch = 12}, 4);
  EXPECT_EQ(advice,
            "train.micro_batch = 6 or parallel.recompute_every = 1 would reduce activations (600 B); "
            "parallel.zero = 1 would reduce optimizer (200 B); parallel.zero = 3 would reduce parameters "
            "(100 B); parallel.zero = 2 would reduce gradients (100 B)");
}

TEST(MemoryAdvice, WhatIsSmallOrDoneIsNotAdvised) {
  const EngineOptions options{.micro_batch = 1,
                              .layout = {.zero = ZeroStage::kGradients, .recompute_every = 1}};
  EXPECT_THAT(advice_on(counts(500, 100, 400, 900), options, 2),
              StartsWith("parallel.zero = 3 would reduce parameters"));
  EXPECT_THAT(advice_on(counts(500, 5, 5, 5), EngineOptions{}, 1),
              HasSubstr("parallel.zero = 3 on more ranks"));
  EXPECT_THAT(advice_on(counts(500, 5, 5, 5), EngineOptions{}, 2), Not(HasSubstr("micro_batch")));
}

TEST(MemoryAdvice, WhatIsKeptOverMicroBatchesNeedNotBe) {
  EngineOptions options{.micro_batch = 1, .layout = {.zero = ZeroStage::kParameters, .recompute_every = 1}};
  options.layout.accumulate_unsharded = true;
  options.layout.keep_gathered = true;
  MemoryCounts needed = counts(1, 40, 1, 1);
  needed[MemoryCategory::kCommunication] = 50;
  EXPECT_EQ(advice_on(needed, options, 2),
            "parallel.keep_gathered = false would reduce communication (50 B); "
            "parallel.accumulate_unsharded = false would reduce gradients (40 B)");
  options.layout.accumulate_unsharded = options.layout.keep_gathered = false;
  EXPECT_THAT(advice_on(needed, options, 2), HasSubstr("more ranks or a device with more memory"));
}

TEST(MemoryAdvice, NothingIsLeft) {
  const EngineOptions options{.micro_batch = 1,
                              .layout = {.zero = ZeroStage::kParameters, .recompute_every = 1}};
  EXPECT_THAT(advice_on(counts(1, 1, 1, 1), options, 2),
              HasSubstr("more ranks or a device with more memory"));
}

TEST(FieldKeys, AChangeIsToldByItsKey) {
  EXPECT_EQ(describe_as_keys({{"zero", 2}, {"micro_batch", 4}, {"num_ranks", 8}}),
            "parallel.zero = 2, train.micro_batch = 4 and 8 ranks");
  EXPECT_EQ(describe_as_key({"keep_gathered", false}), "parallel.keep_gathered = false");
  EXPECT_EQ(describe_as_key({"data_cache_bytes", 12 << 20}), "data.cache = \"12 MiB\"");
  EXPECT_EQ(describe_as_key({"data_cache_bytes", 0}), "data.cache = 0");
}

TEST(FieldKeys, MessagesOfLibrariesAreToldByKeys) {
  EXPECT_EQ(with_keys("Layout::cut = [3, 2] must ascend; Layout::zero. Set "
                      "EngineOptions::micro_batch"),
            "parallel.pipeline_cut = [3, 2] must ascend; parallel.zero. Set train.micro_batch");
  EXPECT_EQ(with_keys("the limit is 7 in all (EncodedImage::max_pixels); remove it, or set "
                      "ImageDataset::Options::on_bad_image = OnBadImage::kSkip"),
            "the limit is 7 in all (data.max_pixels); remove it, or set data.on_bad_image = \"skip\" "
            "(trireme eval: --on-bad-image skip)");
  EXPECT_EQ(with_keys("Precision::grad_dtype, Precision::override_op: add; Precision::grad_dtype"),
            "precision.grad_dtype, precision.ops: add; precision.grad_dtype");
  EXPECT_EQ(with_keys("nothing of it"), "nothing of it");
  EXPECT_EQ(with_keys(""), "");
}

}  // namespace
}  // namespace trireme
