#include "launcher/train/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "runtime/base/error.h"

namespace trireme {
namespace {

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
