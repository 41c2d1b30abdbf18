#include "launcher/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/build.h"
#include "tests/launcher/error_matchers.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

JobConfig synthetic_job() {
  JobConfig config;
  config.data.kind = "synthetic";
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 2};
  return resolve(config);
}

TEST(PlanReport, JsonHoldsMemoryTrafficAndActions) {
  const PlanReport report = make_plan_report(synthetic_job(), 4);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["units"], nlohmann::json({"embedding", "blocks.0", "blocks.1", "head"}));
  ASSERT_EQ(json["groups"].size(), 1u);
  const auto& group = json["groups"][0];
  EXPECT_EQ(group["ranks"], nlohmann::json({0, 1, 2, 3}));
  const StepPrediction& prediction = report.groups[0].prediction;
  EXPECT_EQ(group["peak_bytes"], prediction.memory.peak_total);
  EXPECT_EQ(group["memory"]["parameters"], prediction.memory.peak[MemoryCategory::kParameters]);
  EXPECT_EQ(group["comm_bytes"], prediction.sent_bytes);
  EXPECT_GT(prediction.sent_bytes, 0);
  EXPECT_EQ(group["actions"].size(), report.plan.ranks[0].actions.size());
  EXPECT_EQ(group["actions"][0],
            nlohmann::json({{"kind", "Forward"}, {"unit", 0}, {"block", "embedding"}, {"micro_batch", 0}}));
  std::int64_t at_peak = 0;
  for (const auto& bytes : group["memory_at_peak"]) at_peak += bytes.get<std::int64_t>();
  EXPECT_EQ(at_peak, prediction.memory.peak_total);
}

TEST(PlanReport, TextShowsTheSame) {
  const PlanReport report = make_plan_report(synthetic_job(), 2);
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("ranks 0-1"));
  EXPECT_THAT(
      text, HasSubstr(std::to_string(report.groups[0].prediction.memory.peak[MemoryCategory::kActivations])));
  EXPECT_THAT(text, HasSubstr("Backward unit 3 (head) micro-batch 0"));
}

TEST(PlanReport, PublishedParameterCount) {
  JobConfig config = synthetic_job();
  config.model = {.size = "124m"};
  EXPECT_EQ(make_plan_report(resolve(config), 1).num_parameters, 124439808);
}

// 13 billion parameters: more than test machines hold, so allocating would show.
TEST(PlanReport, LargeModelsAreOnlyCounted) {
  JobConfig config = synthetic_job();
  config.model = {.size = "13b"};
  const PlanReport report = make_plan_report(resolve(config), 8);
  EXPECT_GT(report.groups[0].prediction.memory.peak_total, std::int64_t{150} << 30);
}

TEST(PlanReport, BatchMustDivide) {
  EXPECT_THAT(error_message([] { make_plan_report(synthetic_job(), 3); }),
              HasSubstr("train.global_batch = 12 or 18"));
}

}  // namespace
}  // namespace trireme
