#include "launcher/report/plan_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/job/build.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

JobConfig synthetic_job() {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 2};
  return resolve(config);
}

BlockProfile profile_of(const JobConfig& config) {
  return measure_profile(config, {DeviceType::kCpu, 0}, 1);
}

TEST(BlockProfile, ComesBackFromItsFile) {
  const testing::TemporaryFolder folder;
  const BlockProfile profile = profile_of(synthetic_job());
  EXPECT_EQ(profile.device, "cpu");
  ASSERT_EQ(profile.blocks.size(), 4u);
  testing::write_file(folder / "times.json", to_json(profile));
  const BlockProfile read = read_profile(folder / "times.json");
  EXPECT_EQ(to_json(read), to_json(profile));
  EXPECT_EQ(read.blocks[3].block, "head");
  EXPECT_EQ(read.blocks[3].backward_ms, profile.blocks[3].backward_ms);
}

TEST(BlockProfile, SaysWhatItIsNotOf) {
  JobConfig config = synthetic_job();
  const BlockProfile profile = profile_of(config);
  EXPECT_EQ(describe_mismatch(profile, config), "");
  config.precision.mode = PrecisionMode::kBf16;
  EXPECT_THAT(describe_mismatch(profile, config), HasSubstr("precision.mode = \"fp32\", not \"bf16\""));
  config.train.micro_batch = 4;
  EXPECT_THAT(describe_mismatch(profile, config), HasSubstr("train.micro_batch = 2, not 4"));
  config.model.layers = 3;
  EXPECT_THAT(describe_mismatch(profile, config), HasSubstr("2 layers"));
}

TEST(BlockProfile, NamesAFileThatIsNone) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(error_message([&] { read_profile(folder / "absent.json"); }),
              HasSubstr("absent.json: No such file"));
  testing::write_file(folder / "other.json", "{\"model\": 3}");
  EXPECT_THAT(error_message([&] { read_profile(folder / "other.json"); }),
              HasSubstr("other.json: no profile"));
  testing::write_file(folder / "half.json", "{\"model\":");
  EXPECT_THAT(error_message([&] { read_profile(folder / "half.json"); }), HasSubstr("half.json is damaged"));
}

TEST(BlockProfile, MeasuresImageModelsToo) {
  JobConfig config;
  config.data = {.kind = DataKind::kSynthetic, .image_size = 8};
  config.model = {.name = "resnet20", .classes = 10};
  config.train = {.global_batch = 4, .micro_batch = 2};
  config = resolve(config);
  const BlockProfile profile = profile_of(config);
  EXPECT_EQ(profile.blocks.size(), build_blocks(config.model)->size());
  EXPECT_EQ(profile.model, "resnet20, 10 classes, images of 8 x 8");
  EXPECT_EQ(describe_mismatch(profile, config), "");
}

TEST(BlockProfile, SaysWhichBlocksItLacks) {
  const JobConfig config = synthetic_job();
  BlockProfile profile = profile_of(config);
  profile.blocks[2].block = "blocks.7";
  EXPECT_EQ(describe_mismatch(profile, config), "block 2 called blocks.7, not blocks.1");
  profile.blocks.pop_back();
  EXPECT_EQ(describe_mismatch(profile, config), "3 blocks, not the model's 4");
}

TEST(BlockProfile, SaysWhereElseItWasMeasured) {
  const BlockProfile profile = profile_of(synthetic_job());
  EXPECT_EQ(describe_other_place(profile, {DeviceType::kCpu, 0}, 1), "");
  EXPECT_THAT(describe_other_place(profile, {DeviceType::kCpu, 0}, 4),
              HasSubstr("1 thread(s), not the 4 of a rank"));
  EXPECT_EQ(describe_other_place(profile, {DeviceType::kCuda, 1}, 1), "the device cpu, not cuda:1");
}

TEST(BlockProfile, RefusesTimesThatAreNone) {
  const testing::TemporaryFolder folder;
  const BlockProfile profile = profile_of(synthetic_job());
  for (const double ms : {0.0, -1.5, std::numeric_limits<double>::quiet_NaN()}) {
    for (const bool forward : {true, false}) {
      BlockProfile bad = profile;
      (forward ? bad.blocks[1].forward_ms : bad.blocks[1].backward_ms) = ms;
      testing::write_file(folder / "times.json", to_json(bad));
      const std::string message = error_message([&] { read_profile(folder / "times.json"); });
      EXPECT_THAT(message, HasSubstr("times.json: "));
      if (std::isnan(ms)) continue;  // NaN is not valid JSON: the parser reports it
      EXPECT_THAT(message, HasSubstr(forward ? "forward_ms of block blocks.0 is"
                                             : "backward_ms of block blocks.0 is"));
      EXPECT_THAT(message, HasSubstr("a number of milliseconds above 0"));
    }
  }
  EXPECT_THAT(error_message([&] { read_profile(folder.path()); }), HasSubstr("is a folder"));
}

TEST(PlanTimeline, DrawsThePlan) {
  const testing::TemporaryFolder folder;
  const JobConfig config = synthetic_job();
  const PlanReport report = make_plan_report(config, 2);
  BlockProfile profile = profile_of(config);
  for (BlockTime& time : profile.blocks) time.forward_ms = 1, time.backward_ms = 2;
  const Timeline timeline = plan_timeline(report, profile, 0.0);
  EXPECT_EQ(timeline.num_ranks, 2);
  EXPECT_EQ(timeline.duration_ms(), 4 * 4 * 3);  // micro-batches x blocks
  write_timeline(folder / "step.svg", timeline, report, describe_source(profile));
  write_timeline(folder / "step.json", timeline, report, describe_source(profile));
  const std::string svg = testing::read_file(folder / "step.svg");
  EXPECT_THAT(svg, HasSubstr(">2 rank(s), 4 micro-batch(es)<"));
  EXPECT_THAT(svg, HasSubstr(">Simulated from block times on cpu, 1 thread(s), fp32, micro-batches of 2<"));
  EXPECT_THAT(svg, HasSubstr("bubble: 0.0 % of 2 x 48.00 ms"));
  const auto json = nlohmann::json::parse(testing::read_file(folder / "step.json"));
  EXPECT_EQ(json.at("traceEvents").at(0).at("name"), "Forward unit 0 (embedding) micro-batch 0");
  EXPECT_THAT(
      error_message([&] { write_timeline(folder / "step.png", timeline, report, describe_source(profile)); }),
      HasSubstr("something.svg"));
}

TEST(PlanTimeline, GradientsOfWeightsHaveTheirOwnColour) {
  const testing::TemporaryFolder folder;
  JobConfig config = synthetic_job();
  config.parallel.layout.pipeline = 2;
  config.parallel.layout.schedule = PipelineSchedule::kZeroBubbleH1;
  const PlanReport report = make_plan_report(config, 2);
  BlockProfile profile = profile_of(config);
  for (BlockTime& time : profile.blocks) time.forward_ms = 1, time.backward_ms = 2;
  const Timeline timeline = plan_timeline(report, profile, 0.0);
  EXPECT_EQ(timeline.duration_ms(), 8 * 2 * 3 + 2);  // (p - 1)(F + B - W) plus 8 micro-batches of 2 blocks
  write_timeline(folder / "step.svg", timeline, report, describe_source(profile));
  const std::string svg = testing::read_file(folder / "step.svg");
  for (const char* text : {"<title>BackwardInput unit 3 (head) micro-batch 0",
                           "fill=\"#1f866a\"><title>BackwardWeight unit 3 (head) micro-batch 0", ">backward<",
                           ">weight gradient<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

}  // namespace
}  // namespace trireme
