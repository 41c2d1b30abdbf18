#include "launcher/train/folder_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class FolderLockTest : public ::testing::Test {
 protected:
  FolderLockTest() { std::filesystem::create_directories(folder_); }
  ~FolderLockTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("folder_lock." + std::to_string(getpid()));
};

TEST_F(FolderLockTest, OneAtATime) {
  std::optional<FolderLock> first(std::in_place, folder_);
  try {
    const FolderLock second(folder_);
    FAIL() << "two locks on one folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("process " + std::to_string(getpid())));
    EXPECT_THAT(error.what(), ::testing::HasSubstr(folder_.string()));
  }
  first.reset();
  const FolderLock again(folder_);
}

// Another user could hold a file that it can open, and keep the job from starting.
TEST_F(FolderLockTest, OtherUsersCannotOpenTheFile) {
  const auto file = folder_ / ".lock";
  const auto mode_for = [&](fs::perms folder) {
    fs::permissions(folder_, folder);
    const FolderLock lock(folder_);
    return fs::status(file).permissions();
  };
  EXPECT_EQ(mode_for(fs::perms{0755}), fs::perms{0600});
  fs::permissions(file, fs::perms{0644});  // as earlier builds left it
  EXPECT_EQ(mode_for(fs::perms{0755}), fs::perms{0600});
  EXPECT_EQ(mode_for(fs::perms{0775}), fs::perms{0660});
}

TEST_F(FolderLockTest, AProcessThatEndedIsNotNamed) {
  const pid_t ended = ::fork();
  if (ended == 0) {
    const FolderLock lock(folder_);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  const int other = ::open((folder_ / ".lock").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  try {
    const FolderLock lock(folder_);
    FAIL() << "it is locked";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("another process"));
  }
  ::close(other);
}

TEST_F(FolderLockTest, ALinkInItsPlaceIsRefusedAndItsTargetStays) {
  std::ofstream(folder_ / "precious") << "precious";
  std::filesystem::create_symlink("precious", folder_ / ".lock");
  EXPECT_THROW(FolderLock{folder_}, Error);
  std::string text;
  std::ifstream(folder_ / "precious") >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(FolderLockTest, MissingFolder) {
  EXPECT_THROW(FolderLock(folder_ / "nowhere"), Error);
}

}  // namespace
}  // namespace trireme
