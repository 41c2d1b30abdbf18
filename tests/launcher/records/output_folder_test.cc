#include "launcher/records/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(OutputFolder, IsMadeAndLeftEmpty) {
  const testing::TemporaryFolder scratch;
  const OutputFolder out = prepare_output_folder(scratch / "a" / "b");
  EXPECT_TRUE(std::filesystem::is_directory(out.root));
  EXPECT_TRUE(std::filesystem::is_empty(out.root));
  EXPECT_EQ(prepare_output_folder(out.root).root, out.root);  // it exists already
  EXPECT_EQ(out.config(), scratch / "a/b/config.toml");
}

TEST(OutputFolder, BelowAFileIsRefused) {
  const testing::TemporaryFolder scratch;
  const auto file = scratch / "file";
  testing::write_file(file, "");
  EXPECT_THAT(
      error_message([&] { prepare_output_folder(file / "out"); }),
      ::testing::AllOf(HasSubstr((file / "out").string()), HasSubstr("Not a directory"), HasSubstr("--out")));
  EXPECT_THAT(error_message([&] { prepare_output_folder(file); }), HasSubstr(file.string()));
}

TEST(OutputFolder, ReadOnlyFolderIsRefused) {
  const testing::TemporaryFolder scratch;
  const auto folder = scratch / "locked";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  if (access(folder.c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write everywhere (root)";
  EXPECT_THAT(error_message([&] { prepare_output_folder(folder); }), HasSubstr("Permission denied"));
}

// No user can create files in /proc.
TEST(OutputFolder, UnwritableFileSystemIsRefused) {
  if (!std::filesystem::is_directory("/proc/self")) GTEST_SKIP() << "no /proc on this system";
  EXPECT_THAT(error_message([] { prepare_output_folder("/proc/self"); }),
              HasSubstr("cannot write into the output folder /proc/self"));
}

TEST(OutputFolder, WhatARefusedJobMadeIsTakenBack) {
  const testing::TemporaryFolder scratch;
  const auto refuse = [&](const std::filesystem::path& root) {
    const RefusedFolder refused(root);
    prepare_output_folder(root);
    testing::write_file(root / "config.toml", "");
  };
  refuse(scratch / "a/b/");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  std::filesystem::create_directories(scratch / "a/b");
  testing::write_file(scratch / "a/b/metrics.jsonl", "of a run\n");
  refuse(scratch / "a/b");
  refuse(scratch / "a/c/d");
  EXPECT_EQ(testing::read_file(scratch / "a/b/metrics.jsonl"), "of a run\n");
  EXPECT_FALSE(std::filesystem::exists(scratch / "a/c"));
  {
    RefusedFolder refused(scratch / "kept");
    prepare_output_folder(scratch / "kept");
    refused.keep();
  }
  EXPECT_TRUE(std::filesystem::exists(scratch / "kept"));
}

TEST(OutputFolder, WritesWholeFiles) {
  const testing::TemporaryFolder scratch;
  write_text_file(scratch / "a.txt", "one\n");
  write_text_file(scratch / "a.txt", "two\n");
  EXPECT_EQ(testing::read_file(scratch / "a.txt"), "two\n");
}

}  // namespace
}  // namespace trireme
