// Kills a process that commits checkpoints in a loop, at random moments. Afterwards the newest checkpoint
// must be complete and at least as new as the last one reported as committed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The n-th commit. Every step is committed twice, so that every other commit replaces one.
struct Commit {
  std::int64_t number = 0;
  std::int64_t step() const { return number / 2; }
};

void write_checkpoint(CheckpointStore& store, Commit commit) {
  PendingCheckpoint pending = store.begin(commit.step());
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::vector<float> values(3000, static_cast<float>(commit.number));
    SafetensorsWriter writer(pending.folder() / name, {{"w", "F32", {3000}}});
    writer.append(values);
    pending.add_file(writer.commit());
  }
  pending.commit({{"number", commit.number}});
  if (commit.number % 2 == 1) store.prune(2, Verify::kSizes);
}

/// Never returns. Reports the number of each completed commit.
[[noreturn]] void write_forever(const fs::path& root, Commit commit, int report) {
  try {
    CheckpointStore store(root);
    for (;; ++commit.number) {
      write_checkpoint(store, commit);
      if (::write(report, &commit.number, sizeof commit.number) != sizeof commit.number) ::_exit(3);
    }
  } catch (const std::exception& error) {
    (void)!::write(STDERR_FILENO, error.what(), std::string_view(error.what()).size());
  }
  ::_exit(2);
}

/// The number of the newest checkpoint, after verifying its content; -1 if there is none.
std::int64_t newest_number(const fs::path& root) {
  const auto latest = CheckpointStore(root).latest(Verify::kChecksums);
  if (!latest) return -1;
  const auto number = latest->manifest.content.at("number").get<std::int64_t>();
  EXPECT_EQ(latest->manifest.step, Commit{number}.step());
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    std::vector<float> values(3000);
    SafetensorsReader(latest->folder / name).copy_floats("w", 0, values);
    EXPECT_EQ(values, std::vector<float>(3000, static_cast<float>(number)));
  }
  return number;
}

TEST(CheckpointKill, AtAnyMomentAWholeCheckpointRemains) {
  const testing::TemporaryFolder folder;
  const fs::path root = folder / "checkpoints";
  std::mt19937 random(2024);
  std::int64_t newest = -1;
  for (int kill = 0; kill < 20; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_forever(root, {newest + 1}, ends[1]);
    ::close(ends[1]);
    // Wait for the first commit, so that every kill hits a running loop; then up to 30 ms more.
    std::int64_t reported = -1;
    ASSERT_EQ(::read(ends[0], &reported, sizeof reported), static_cast<ssize_t>(sizeof reported));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed on its own with status " << status;
    for (std::int64_t number; ::read(ends[0], &number, sizeof number) == sizeof number;) reported = number;
    ::close(ends[0]);

    newest = newest_number(root);
    ASSERT_GE(newest, reported) << "kill " << kill << " lost a committed checkpoint";
    ASSERT_LE(newest, reported + 1) << "kill " << kill;
  }
  // One more writer removes the remains of all killed ones.
  CheckpointStore store(root);
  write_checkpoint(store, {newest + 1});
  store.prune(1, Verify::kSizes);
  EXPECT_EQ(std::distance(fs::directory_iterator(root), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace trireme
