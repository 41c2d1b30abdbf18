#include "launcher/page/run_files.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

TEST(RunFiles, PathsOutOfTheFolderAreRefused) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder / "run");
  fs::create_directory(folder / "run-other");
  std::ofstream(folder / "run/config.toml") << "a";
  std::ofstream(folder / "secret") << "b";
  std::ofstream(folder / "run-other/secret") << "c";
  fs::create_symlink(folder / "secret", folder / "run/link");
  fs::create_symlink(folder / "run/config.toml", folder / "run/inner");
  const fs::path run = folder / "run";
  EXPECT_TRUE(file_within(run, "config.toml"));
  EXPECT_TRUE(file_within(run, "inner"));
  EXPECT_FALSE(file_within(run, "../secret"));
  EXPECT_FALSE(file_within(run, "../run-other/secret"));
  EXPECT_FALSE(file_within(run, (folder / "secret").string()));
  EXPECT_FALSE(file_within(run, "link"));
  EXPECT_FALSE(file_within(run, "."));
  EXPECT_FALSE(file_within(run, "none"));
  EXPECT_EQ(text_within(run, "config.toml", 10), "a");
  EXPECT_EQ(text_within(run, "config.toml", 0), "");
}

TEST(RunFiles, LastLinesAreWhole) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "lines") << "first\nsecond\nthird\n";
  EXPECT_EQ(last_lines_within(folder.path(), "lines", 100), "first\nsecond\nthird\n");
  EXPECT_EQ(last_lines_within(folder.path(), "lines", 15), "second\nthird\n");
  EXPECT_EQ(last_lines_within(folder.path(), "lines", 9), "third\n");
  std::ofstream(folder / "long") << std::string(100, 'x');
  EXPECT_EQ(last_lines_within(folder.path(), "long", 10), "");
  EXPECT_EQ(last_lines_within(folder.path(), "none", 10), "");
  EXPECT_EQ(last_lines_within(folder / "lines", "../lines", 100), "");
}

TEST(RunFiles, AFolderOfRunsIsItsRuns) {
  const testing::TemporaryFolder folder, elsewhere;
  for (const char* name : {"b", "a", "empty"}) fs::create_directory(folder / name);
  std::ofstream(folder / "a/metrics.jsonl") << "";
  std::ofstream(folder / "b/config.toml") << "";
  std::ofstream(elsewhere / "metrics.jsonl") << "";
  fs::create_directory_symlink(elsewhere.path(), folder / "c");
  EXPECT_THAT(find_runs({folder.path().string()}), ElementsAre(folder / "a", folder / "b"));
  EXPECT_THAT(find_runs({(folder / "b").string()}), ElementsAre(folder / "b"));
  EXPECT_THROW(find_runs({(folder / "empty").string()}), Error);
  EXPECT_THROW(find_runs({(folder / "none").string()}), Error);
  EXPECT_THROW(find_run(folder.path().string()), Error);
}

TEST(RunFiles, ASearchedFolderWithTooManyRunsKeepsThoseWithMetrics) {
  const testing::TemporaryFolder folder;
  for (int i = 0; i < 300; ++i) testing::write_file(folder / fmt::format("runs/a{}/config.toml", i), "");
  testing::write_file(folder / "runs/z/metrics.jsonl", "");
  testing::write_file(folder / "own/metrics.jsonl", "");
  const auto runs = find_runs({(folder / "runs").string(), (folder / "own").string()});
  EXPECT_EQ(runs.size(), kMaxRuns);
  EXPECT_EQ(runs.front(), folder / "own");
  EXPECT_EQ(runs.back(), folder / "runs/z");
  const std::vector<std::string> named(kMaxRuns + 1, (folder / "own").string());
  EXPECT_THROW(find_runs(named), Error);
}

TEST(RunFiles, NamesTellRunsApart) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"x/out", "y/out", "z"}) fs::create_directories(folder / name);
  const auto names = display_names({folder / "x/out", folder / "y/out", folder / "z"});
  EXPECT_THAT(names, ElementsAre((folder / "x/out").string(), (folder / "y/out").string(), "z"));
}

}  // namespace
}  // namespace trireme
