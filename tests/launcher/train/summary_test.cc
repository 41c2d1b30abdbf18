#include "launcher/train/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

TEST(Summary, FiguresLayoutAndHash) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "summary.json";
  RunSummary summary{
      .version = "1.2.3", .num_steps = 20, .loss = 2.5, .eval_loss = 2.25, .state_hash = "abcd"};
  summary.layout = {.num_ranks = 4,
                    .num_data_ranks = 4,
                    .layout = {.keep_gathered = true, .exchange = Exchange::kFlat},
                    .reduction = "fast"};
  summary.memory.peak[MemoryCategory::kGradients] = 128;
  write_summary(path, summary);
  const json read = json::parse(testing::read_file(path));
  EXPECT_EQ(read["steps"], 20);
  EXPECT_EQ(read["loss"], 2.5);
  EXPECT_EQ(read["eval_loss"], 2.25);
  EXPECT_EQ(read["state_hash"], "abcd");
  EXPECT_EQ(read["layout"]["ranks"], 4);
  EXPECT_EQ(read["layout"]["reduction"], "fast");
  EXPECT_EQ(read["layout"]["exchange"], "flat");
  EXPECT_EQ(read["layout"]["hosts"], 1);
  EXPECT_EQ(read["layout"]["keep_gathered"], true);
  EXPECT_EQ(read["layout"]["accumulate_unsharded"], false);
  EXPECT_EQ(read["memory"]["gradients"], 128);
}

TEST(Summary, ReplacesTheOldFileAndLeavesNothingElse) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "summary.json";
  write_summary(path, {.status = "stopped"});
  write_summary(path, {.status = "done"});
  EXPECT_EQ(json::parse(testing::read_file(path))["status"], "done");
  EXPECT_TRUE(json::parse(testing::read_file(path))["eval_loss"].is_null());
  int num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(scratch.path())) ++num_files;
  EXPECT_EQ(num_files, 1);
}

}  // namespace
}  // namespace trireme
