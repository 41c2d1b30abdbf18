#include "launcher/train/output_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_file(out_.metrics(), "{}\n"); }

  testing::TemporaryFolder scratch_;
  const OutputFolder out_{scratch_ / "out"};
};

TEST_F(OutputWatchTest, WhatARunWritesIsNoLoss) {
  const OutputWatch watch(out_);
  testing::write_file(out_.metrics(), "{}\n{}\n");
  testing::write_file(out_.checkpoints() / "step-000001/manifest.json", "{}");
  write_text_file(out_.summary(), "{}");
  EXPECT_FALSE(watch.look());
}

TEST_F(OutputWatchTest, ARenamedFolderIsFoundUnderItsNewName) {
  const OutputWatch watch(out_);
  fs::rename(out_.root, scratch_ / "elsewhere");
  for (const bool has_successor : {false, true}) {
    if (has_successor) testing::write_file(out_.metrics(), "of another run");
    const auto loss = watch.look();
    ASSERT_TRUE(loss);
    EXPECT_THAT(loss->what,
                HasSubstr(out_.root.string() + " was renamed to " + (scratch_ / "elsewhere").string()));
    EXPECT_EQ(loss->refuge, fs::canonical(scratch_ / "elsewhere"));
  }
}

TEST_F(OutputWatchTest, ARemovedFolderCanBeMadeAgainAndAnothersIsLeftAlone) {
  const OutputWatch watch(out_);
  fs::remove_all(out_.root);
  auto loss = watch.look();
  ASSERT_TRUE(loss);
  EXPECT_THAT(loss->what, HasSubstr(out_.root.string() + " was removed"));
  EXPECT_EQ(loss->refuge, out_.root);
  testing::write_file(out_.metrics(), "of another run");
  loss = watch.look();
  ASSERT_TRUE(loss);
  EXPECT_THAT(loss->what, HasSubstr("was replaced by another"));
  EXPECT_FALSE(loss->refuge);
}

TEST_F(OutputWatchTest, MetricsThatNobodyCanReadAreALoss) {
  const OutputWatch watch(out_);
  fs::remove(out_.metrics());
  const auto loss = watch.look();
  ASSERT_TRUE(loss);
  EXPECT_THAT(loss->what, HasSubstr("metrics.jsonl was removed"));
  EXPECT_EQ(loss->refuge, out_.root);
}

TEST_F(OutputWatchTest, AFolderWithoutItsFilesIsRefused) {
  fs::remove(out_.metrics());
  EXPECT_THAT(testing::message_of([&] { OutputWatch{out_}; }), HasSubstr("metrics.jsonl is gone"));
}

}  // namespace
}  // namespace trireme
