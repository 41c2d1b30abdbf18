#include "launcher/supervise/disk_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/records/history.h"
#include "launcher/records/output_folder.h"
#include "launcher/supervise/disk_room.h"
#include "launcher/supervise/lease.h"
#include "runtime/base/disk_failure.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/small_disk.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kNoMounts = "this user may not mount a small file system";

/// Records pauses instead of waiting, and the log.
struct Recorded {
  std::vector<milliseconds> pauses;
  std::vector<std::string> lines;
  std::size_t cut_short_after = 1000;

  DiskWait with_limit(milliseconds limit) {
    return DiskWait({.limit = limit,
                     .pause =
                         [this](milliseconds pause) {
                           pauses.push_back(pause);
                           return pauses.size() < cut_short_after;
                         },
                     .log = [this](const std::string& line) { lines.push_back(line); }});
  }
};

void fail_full() {
  throw Error(ErrorCode::kRuntime, "cannot write a: No space left on device");
}

TEST(DiskWait, PausesGrow) {
  Recorded recorded;
  DiskWait wait = recorded.with_limit(seconds(300));
  int failures = 8;
  EXPECT_TRUE(wait.until_written([&] {
    if (failures-- > 0) fail_full();
  }));
  EXPECT_THAT(recorded.pauses, ElementsAre(seconds(1), seconds(2), seconds(4), seconds(8), seconds(16),
                                           seconds(32), seconds(60), seconds(60)));
  EXPECT_THAT(recorded.lines, SizeIs(2));
  EXPECT_EQ(recorded.lines[0],
            "waiting for the disk, for up to 5 minutes: cannot write a: No space left on device");
  EXPECT_EQ(recorded.lines[1], "the disk takes data again, after 183 s");
}

TEST(DiskWait, EndsAtItsLimit) {
  Recorded recorded;
  DiskWait wait = recorded.with_limit(milliseconds(4500));
  EXPECT_THAT(error_message([&] { wait.until_written(fail_full); }, ErrorCode::kRuntime),
              HasSubstr("No space left on device; waited 4.5 s for the disk (--max-disk-minutes 0.075)"));
  EXPECT_THAT(recorded.pauses, ElementsAre(seconds(1), seconds(2), milliseconds(1500)));
  EXPECT_THROW(wait.until_written(fail_full), Error);  // the same outage
  EXPECT_THAT(recorded.pauses, SizeIs(3));
  EXPECT_TRUE(wait.until_written([] {}));
  EXPECT_THROW(wait.until_written(fail_full), Error);  // another one
  EXPECT_THAT(recorded.pauses, SizeIs(6));
}

TEST(DiskWait, EndsWithASignalAndAtOtherErrors) {
  Recorded recorded{.cut_short_after = 2};
  EXPECT_FALSE(recorded.with_limit(seconds(60)).until_written(fail_full));
  EXPECT_THAT(recorded.pauses, SizeIs(2));
  EXPECT_THROW(recorded.with_limit(seconds(60)).until_written([] {
    throw Error(ErrorCode::kInvalidInput, "Read-only file system");
  }),
               Error);
  EXPECT_THAT(recorded.pauses, SizeIs(2));
}

TEST(DiskFailure, IsNoInput) {
  for (const int number : {ENOSPC, EDQUOT, EIO, ESTALE}) {
    EXPECT_EQ(code_of_file_failure(number), ErrorCode::kRuntime);
    EXPECT_TRUE(is_disk_failure(number));
  }
  for (const int number : {EACCES, EROFS}) {
    EXPECT_EQ(code_of_file_failure(number), ErrorCode::kInvalidInput);
    EXPECT_FALSE(is_disk_failure(number));
  }
}

TEST(FullDisk, RefusesTheProbeWhileRunning) {
  const testing::SmallDisk disk(64 * 1024);
  if (!disk.mounted()) GTEST_SKIP() << kNoMounts;
  prepare_output_folder(disk.path());
  disk.fill();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(error_message([&] { prepare_output_folder(disk.path()); }, ErrorCode::kRuntime),
                HasSubstr("No space left on device"));
  }
  EXPECT_THAT(error_message([&] { const Lease lease(disk.path()); }, ErrorCode::kRuntime),
              HasSubstr("No space left on device"));
  disk.make_room();
  prepare_output_folder(disk.path());
}

TEST(DiskRoom, IsThatOfTheNewestCheckpoint) {
  const testing::SmallDisk disk(256 * 1024);
  if (!disk.mounted()) GTEST_SKIP() << kNoMounts;
  const auto write = [&](const std::filesystem::path& path, std::size_t bytes) {
    std::filesystem::create_directories((disk.path() / path).parent_path());
    testing::write_file(disk.path() / path, std::string(bytes, 'x'));
  };
  check_room_for_checkpoint(disk.path() / "checkpoints");
  write("checkpoints/step-000008/model.safetensors", 4096);
  write("checkpoints/step-000012/optimizer/0.safetensors", 80 * 1024);
  check_room_for_checkpoint(disk.path() / "checkpoints");
  write("filler", 100 * 1024);
  EXPECT_THAT(
      error_message([&] { check_room_for_checkpoint(disk.path() / "checkpoints"); }, ErrorCode::kRuntime),
      HasSubstr("bytes free, and a checkpoint takes 81920"));
  std::filesystem::remove(disk.path() / "filler");
  write("filler", 60 * 1024);
  write("checkpoints/.tmp-step-000016-1.2@host/model.safetensors", 56 * 1024);
  check_room_for_checkpoint(disk.path() / "checkpoints");  // the leftovers of a dead writer are removed first
}

TEST(FullDisk, TheHistoryKeepsItsLines) {
  const testing::SmallDisk disk(64 * 1024);
  if (!disk.mounted()) GTEST_SKIP() << kNoMounts;
  History history(disk.path());
  history.begin({.number = 1, .num_ranks = 2, .first_step = 1, .tag = "a#1"});
  disk.fill();
  const std::string long_word(6000, 'w');  // uses up part of the last page
  history.end({.exit_code = 1, .step = 4, .verdict = long_word});
  history.note("restart", "again");
  EXPECT_FALSE(read_attempts(disk.path()).at(0).end) << "a part of the line is there";
  EXPECT_THAT(error_message([&] { history.flush(); }, ErrorCode::kRuntime), HasSubstr("supervisor.jsonl"));
  disk.make_room();
  history.flush();
  history.flush();
  EXPECT_EQ(read_attempts(disk.path()).at(0).end->verdict, long_word);
  history.begin({.number = 2, .num_ranks = 2, .first_step = 1, .tag = "a#2"});
  EXPECT_THAT(read_attempts(disk.path()), SizeIs(2));
  std::ifstream file(history.path());
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
}

}  // namespace
}  // namespace trireme
