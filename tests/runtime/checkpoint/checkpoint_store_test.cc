#include "runtime/checkpoint/checkpoint_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/writer_mark.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::LogCapture;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  /// Commits a checkpoint with one tensor of value `value`.
  fs::path commit(std::int64_t step, float value) {
    PendingCheckpoint pending = store_.begin(step);
    SafetensorsWriter writer(pending.folder() / "model.safetensors", {{"w", "F32", {1}}});
    writer.append(std::span(&value, 1));
    pending.add_file(writer.commit());
    write_file(pending.folder() / "notes.txt", "a file that nobody announced");
    return pending.commit({{"value", value}});
  }
  static float value_of(const Checkpoint& checkpoint) {
    float value = 0.0f;
    SafetensorsReader(checkpoint.folder / "model.safetensors").copy_floats("w", 0, std::span(&value, 1));
    EXPECT_EQ(checkpoint.manifest.content.at("value").get<float>(), value);
    return value;
  }
  std::ptrdiff_t num_entries() const {
    return std::distance(fs::directory_iterator(store_.root()), fs::directory_iterator());
  }
  fs::path hidden(const std::string& prefix, const std::string& mark) const {
    return store_.root() / (prefix + "step-000010-" + mark);
  }

  const std::string dead_mark_ = [] {
    const std::string mark = writer_mark();
    return mark.substr(0, mark.find('.')) + ".1" + mark.substr(mark.find('@'));
  }();
  TemporaryFolder folder_;
  CheckpointStore store_{folder_ / "run/checkpoints"};
};

TEST_F(CheckpointStoreTest, AnEmptyOrMissingFolderHasNone) {
  EXPECT_FALSE(store_.latest(Verify::kChecksums).has_value());
  fs::create_directories(store_.root());
  EXPECT_FALSE(store_.latest(Verify::kChecksums).has_value());
}

TEST_F(CheckpointStoreTest, TheHighestStepIsTheLatest) {
  commit(999'999, 1.0f);
  EXPECT_EQ(commit(1'000'000, 2.0f), store_.root() / "step-1000000");
  EXPECT_EQ(commit(20, 3.0f), store_.root() / "step-000020");
  const LogCapture log;
  const auto latest = store_.latest(Verify::kChecksums);
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->manifest.step, 1'000'000);
  EXPECT_EQ(value_of(*latest), 2.0f);
  ASSERT_EQ(latest->manifest.files.size(), 2u);
  EXPECT_EQ(latest->manifest.files[1].name, "notes.txt");
  EXPECT_EQ(store_.list(Verify::kChecksums).size(), 3u);
  EXPECT_EQ(num_entries(), 3);
  EXPECT_EQ(log.text(), "");
}

TEST_F(CheckpointStoreTest, WithoutCommitNothingStays) {
  {
    const PendingCheckpoint pending = store_.begin(5);
    write_file(pending.folder() / "part", "x");
    EXPECT_FALSE(store_.latest(Verify::kSizes).has_value());
  }
  EXPECT_EQ(num_entries(), 0);
}

TEST_F(CheckpointStoreTest, TheSameStepIsReplaced) {
  commit(10, 1.0f);
  commit(10, 2.0f);
  EXPECT_EQ(value_of(store_.latest(Verify::kChecksums).value()), 2.0f);
  EXPECT_EQ(num_entries(), 1);
}

TEST_F(CheckpointStoreTest, WhatAWriterAnnouncedMustBeThere) {
  PendingCheckpoint pending = store_.begin(5);
  write_file(pending.folder() / "a", "four");
  pending.add_file({.name = "a", .bytes = 5});
  EXPECT_NE(message_of([&] { pending.commit({}); }).find("a has 4 bytes, and its writer announced 5"),
            std::string::npos);
  PendingCheckpoint other = store_.begin(6);
  other.add_file({.name = "b", .bytes = 5});
  EXPECT_NE(message_of([&] { other.commit({}); }).find("b was announced"), std::string::npos);
  EXPECT_FALSE(store_.latest(Verify::kSizes).has_value());
}

TEST_F(CheckpointStoreTest, DamagedOnesArePassedOverWithTheReason) {
  for (const int step : {10, 20, 30, 40, 50}) commit(step, static_cast<float>(step));
  fs::remove(store_.folder_of(50) / "manifest.json");
  fs::resize_file(store_.folder_of(40) / "model.safetensors", 10);
  fs::remove(store_.folder_of(30) / "notes.txt");
  const auto path = store_.folder_of(20) / "model.safetensors";
  std::string text = testing::read_file(path);
  text.back() ^= 1;
  write_file(path, text);

  const LogCapture log;
  EXPECT_EQ(store_.latest(Verify::kSizes)->manifest.step, 20);
  EXPECT_EQ(store_.latest(Verify::kChecksums)->manifest.step, 10);
  for (const char* part : {"step-000050", "manifest.json: No such file", "step-000040", "has 10 bytes",
                           "step-000030", "notes.txt does not exist", "step-000020", "was changed"})
    EXPECT_NE(log.text().find(part), std::string::npos) << part << " in\n" << log.text();
  EXPECT_THROW(open_checkpoint(store_.folder_of(20), Verify::kChecksums), Error);
  EXPECT_THROW(open_checkpoint(store_.root() / "nothing", Verify::kSizes), Error);
}

TEST_F(CheckpointStoreTest, ARenamedCheckpointIsNotTakenForAnotherStep) {
  commit(10, 1.0f);
  fs::rename(store_.folder_of(10), store_.folder_of(99));
  const LogCapture log;
  EXPECT_FALSE(store_.latest(Verify::kSizes).has_value());
  EXPECT_NE(log.text().find("manifest is of step 10"), std::string::npos) << log.text();
}

TEST_F(CheckpointStoreTest, PruneKeepsTheNewestAndWhatIsDamaged) {
  for (const int step : {10, 20, 30, 40, 50}) commit(step, static_cast<float>(step));
  fs::remove(store_.folder_of(30) / "manifest.json");
  write_file(store_.root() / "step-000010-best/model.safetensors", "a user's own copy");
  store_.prune(2, Verify::kSizes);
  EXPECT_TRUE(fs::exists(store_.folder_of(50)));
  EXPECT_TRUE(fs::exists(store_.folder_of(40)));
  EXPECT_TRUE(fs::exists(store_.folder_of(30)));
  EXPECT_EQ(num_entries(), 4);
  EXPECT_THROW(store_.prune(0, Verify::kSizes), Error);
}

TEST_F(CheckpointStoreTest, RemainsOfDeadWritersAreIgnoredThenRemoved) {
  commit(9, 1.0f);
  write_file(hidden(".tmp-", dead_mark_) / "model.safetensors", "half");
  write_file(hidden(".del-", dead_mark_) / "model.safetensors", "half");
  write_file(hidden(".tmp-", "1.1@another-host") / "model.safetensors", "maybe being written");
  {
    const LogCapture log;
    EXPECT_EQ(store_.latest(Verify::kSizes)->manifest.step, 9);
    EXPECT_NE(log.text().find(dead_mark_), std::string::npos) << log.text();
  }
  const PendingCheckpoint alive = store_.begin(10);
  const PendingCheckpoint other = store_.begin(11);
  EXPECT_TRUE(fs::exists(alive.folder())) << "a living writer's folder was removed";
  EXPECT_FALSE(fs::exists(hidden(".tmp-", dead_mark_)));
  EXPECT_FALSE(fs::exists(hidden(".del-", dead_mark_)));
  EXPECT_TRUE(fs::exists(hidden(".tmp-", "1.1@another-host")));
  EXPECT_THROW(store_.begin(10), Error) << "the same step twice at a time";
}

TEST_F(CheckpointStoreTest, RemainsOfAnotherHostAreRemovedAfterAnHour) {
  const fs::path remains = hidden(".tmp-", "1.1@another-host");
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(2);
  write_file(remains / "old", "x");
  fs::last_write_time(remains / "old", long_ago);
  store_.begin(1);
  EXPECT_TRUE(fs::exists(remains)) << "the folder itself changed just now";
  fs::last_write_time(remains, long_ago);
  store_.begin(1);
  EXPECT_FALSE(fs::exists(remains));
}

TEST_F(CheckpointStoreTest, AReplacementCutOffBetweenItsRenamesLosesNothing) {
  commit(9, 1.0f);
  commit(10, 2.0f);
  fs::rename(store_.folder_of(10), hidden(".old-", dead_mark_));
  const auto latest = store_.latest(Verify::kChecksums);
  EXPECT_EQ(latest->manifest.step, 10);
  EXPECT_EQ(value_of(*latest), 2.0f);
  store_.begin(11);  // the next writer restores it
  EXPECT_EQ(store_.latest(Verify::kChecksums)->folder, store_.folder_of(10));
  EXPECT_EQ(num_entries(), 2);
}

TEST_F(CheckpointStoreTest, AReplacedOneBesideItsSuccessorIsRemoved) {
  commit(10, 1.0f);
  fs::rename(store_.folder_of(10), hidden(".old-", dead_mark_));
  fs::copy(hidden(".old-", dead_mark_), folder_ / "aside", fs::copy_options::recursive);
  commit(10, 2.0f);
  fs::rename(folder_ / "aside", hidden(".old-", dead_mark_));
  EXPECT_EQ(value_of(store_.latest(Verify::kChecksums).value()), 2.0f);
  store_.begin(11);
  EXPECT_EQ(num_entries(), 1);
  EXPECT_EQ(value_of(store_.latest(Verify::kChecksums).value()), 2.0f);
}

TEST_F(CheckpointStoreTest, LinksOutOfTheFolderArePassedOver) {
  commit(10, 1.0f);
  const fs::path elsewhere = folder_ / "elsewhere/step-000020";
  fs::create_directories(elsewhere.parent_path());
  fs::rename(commit(20, 2.0f), elsewhere);
  fs::create_directory_symlink(elsewhere, store_.root() / "step-000020");
  const LogCapture log;
  EXPECT_EQ(store_.latest(Verify::kChecksums)->manifest.step, 10);
  EXPECT_NE(log.text().find("step-000020 is a link to " + elsewhere.string() + ", outside of its folder"),
            std::string::npos)
      << log.text();
  // A linked folder of checkpoints, and a linked checkpoint that the user names, are opened.
  fs::create_directory_symlink(store_.root(), folder_ / "linked");
  EXPECT_EQ(CheckpointStore(folder_ / "linked").latest(Verify::kSizes)->manifest.step, 10);
  EXPECT_EQ(open_checkpoint(store_.root() / "step-000020", Verify::kSizes).manifest.step, 20);
}

// Other users may create links in a folder that they can write.
TEST_F(CheckpointStoreTest, APlaceThatAnotherUserPreparedIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  commit(10, 1.0f);
  fs::create_directory(folder_ / "precious");
  fs::create_directory_symlink("../precious", folder_ / "run/link");
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::lchown((folder_ / "run/link").c_str(), kNobody, kNobody), 0);
  EXPECT_NE(message_of([&] { store_.begin(20); }).find("run/link belongs to another user"),
            std::string::npos);
  fs::rename(folder_ / "run/checkpoints", folder_ / "run/before");
  fs::rename(folder_ / "run/link", folder_ / "run/checkpoints");
  EXPECT_NE(message_of([&] { store_.begin(20); }).find("run/checkpoints belongs to another user"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_ / "precious"));
}

TEST_F(CheckpointStoreTest, AnUnwritablePlaceIsNamed) {
  write_file(folder_ / "file", "not a folder");
  CheckpointStore store(folder_ / "file/checkpoints");
  const std::string message = message_of([&] { store.begin(1); });
  EXPECT_NE(message.find("file/checkpoints"), std::string::npos) << message;
  EXPECT_FALSE(CheckpointStore(folder_ / "none").latest(Verify::kSizes).has_value());
}

}  // namespace
}  // namespace trireme
