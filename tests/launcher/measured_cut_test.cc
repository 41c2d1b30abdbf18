#include "launcher/measured_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/build.h"
#include "launcher/plan_timeline.h"
#include "parallel/comm/local.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

JobConfig synthetic_job() {
  JobConfig config;
  config.data.kind = "synthetic";
  config.model = {.layers = 4, .hidden = 32, .heads = 2, .vocab = 64, .seq_len = 16};
  config.train = {.global_batch = 16, .micro_batch = 2};
  config.parallel.pipeline = 2;
  config.parallel.pipeline_cut = "measured";
  return resolve(config);
}

// Blocks of 3 ms around an embedding of 1 ms and a head of 12.
BlockProfile heavy_head(const JobConfig& config) {
  BlockProfile profile = measure_profile(config, {DeviceType::kCpu, 0}, 1);
  for (BlockTime& time : profile.blocks) time.forward_ms = 1, time.backward_ms = 2;
  profile.blocks.front().backward_ms = 0;
  profile.blocks.back().forward_ms = 10;
  return profile;
}

TEST(MeasuredCut, MakesTheSlowestStageQuick) {
  JobConfig config = synthetic_job();
  const BlockProfile profile = heavy_head(config);
  config.parallel.pipeline_cut = measured_cut(config, profile);
  EXPECT_EQ(config.parallel.pipeline_cut, "5");  // 13 and 12 ms
  const PlanReport report = make_plan_report(config, 2);
  const Timeline timeline = plan_timeline(report, profile, 0.0);
  EXPECT_EQ(timeline.num_ranks, 2);
  EXPECT_EQ(timeline.busy_ms(0), 8 * 13);
  EXPECT_EQ(timeline.busy_ms(1), 8 * 12);
  EXPECT_GT(timeline.bubble_share(), 0.0);
  config.parallel.pipeline = 3;
  EXPECT_EQ(measured_cut(config, profile), "3, 5");  // 7, 6 and 12 ms
}

TEST(MeasuredCut, ImageModelsAreMeasuredOnImages) {
  JobConfig config;
  config.data = {.kind = "synthetic", .image_size = 8};
  config.model = {.name = "resnet20"};
  config.train = {.global_batch = 4, .micro_batch = 2};
  config.parallel.pipeline = 2;
  config.parallel.pipeline_cut = "measured";
  config = resolve(config);
  const BlockProfile profile = measure_profile(config, {DeviceType::kCpu, 0}, 1);
  EXPECT_EQ(profile.blocks.size(), build_blocks(config.model)->size());
  EXPECT_TRUE(listed_cut(measured_cut(config, profile)).has_value());
  EXPECT_EQ(describe_mismatch(profile, config), "");
  config.data.image_size = 16;
  EXPECT_NE(describe_mismatch(profile, config), "");
}

TEST(MeasuredCut, IsMeasuredOnceAndTheSameOnEveryRank) {
  const testing::TemporaryFolder folder;
  const JobConfig job = synthetic_job();
  const auto file = folder / "out" / "block_times.json";
  const auto cut_on_two_ranks = [&](const JobConfig& config) {
    std::vector<std::string> cuts(2);
    run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
      const JobConfig cut = with_measured_cut(config, *comm, {.device = {DeviceType::kCpu, 0}, .file = file});
      cuts[static_cast<std::size_t>(comm->rank())] = cut.parallel.pipeline_cut;
    });
    EXPECT_EQ(cuts[0], cuts[1]);
    return cuts[0];
  };
  EXPECT_TRUE(listed_cut(cut_on_two_ranks(job)).has_value());
  testing::write_file(file, to_json(heavy_head(job)));
  EXPECT_EQ(cut_on_two_ranks(job), "5");  // from the file
  JobConfig other = job;
  other.train.micro_batch = 1;
  cut_on_two_ranks(other);  // measured again: the file is of another job
  EXPECT_EQ(read_profile(file).micro_batch, 1);
  other.parallel.pipeline_cut = "blocks";
  EXPECT_EQ(cut_on_two_ranks(other), "blocks");
}

}  // namespace
}  // namespace trireme
