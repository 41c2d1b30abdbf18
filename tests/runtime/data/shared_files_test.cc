#include "runtime/data/shared_files.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/data/open_images.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::write_file;

class SharedFilesTest : public ::testing::Test {
 protected:
  using Paths = std::vector<fs::path>;
  std::int64_t shared(const Paths& train, const Paths& eval) {
    const auto found = find_shared_files(train, eval);
    return found ? found->count : 0;
  }
  /// Of folders of class folders; pictures are not opened.
  std::int64_t shared_pictures(const char* train, const char* eval) {
    const auto a = open_images({.path = folder_ / train}), b = open_images({.path = folder_ / eval});
    const auto found = find_shared_files(*a, *b);
    return found ? found->count : 0;
  }
  TemporaryFolder folder_;
};

TEST_F(SharedFilesTest, FilesAreFoundUnderOtherNames) {
  write_file(folder_ / "a.bin", "tokens a");
  write_file(folder_ / "b.bin", "tokens b");
  write_file(folder_ / "copy.bin", "tokens a");
  fs::create_symlink(folder_ / "a.bin", folder_ / "soft.bin");
  fs::create_hard_link(folder_ / "a.bin", folder_ / "hard.bin");
  EXPECT_EQ(shared({folder_ / "a.bin"}, {folder_ / "b.bin"}), 0);
  for (const char* name : {"a.bin", "soft.bin", "hard.bin", "copy.bin", "./a.bin"}) {
    EXPECT_EQ(shared({folder_ / "b.bin", folder_ / "a.bin"}, {folder_ / name}), 1) << name;
  }
  const auto copy = find_shared_files(Paths{folder_ / "a.bin"}, Paths{folder_ / "copy.bin"});
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->is_copy);
  EXPECT_EQ(shared({}, {folder_ / "a.bin"}), 0);
}

TEST_F(SharedFilesTest, PicturesAreFoundByFoldersAndLinks) {
  for (const char* name : {"train/ant/1.png", "train/bee/1.png", "apart/ant/1.png", "apart/bee/1.png"})
    write_file(folder_ / name, "no picture is opened");
  EXPECT_EQ(shared_pictures("train", "apart"), 0);
  EXPECT_EQ(shared_pictures("train", "train"), 2);
  fs::create_directory_symlink(folder_ / "train", folder_ / "same");
  EXPECT_EQ(shared_pictures("train", "same"), 2);

  fs::create_directories(folder_ / "class");
  fs::create_directory_symlink(folder_ / "train/ant", folder_ / "class/ant");
  EXPECT_EQ(shared_pictures("train", "class"), 1);

  fs::create_directories(folder_ / "soft/ant");
  fs::create_symlink(folder_ / "train/ant/1.png", folder_ / "soft/ant/2.png");
  EXPECT_EQ(shared_pictures("train", "soft"), 1);
  EXPECT_EQ(shared_pictures("soft", "train"), 1);

  fs::create_directories(folder_ / "hard/ant");
  fs::create_hard_link(folder_ / "train/ant/1.png", folder_ / "hard/ant/2.png");
  EXPECT_EQ(shared_pictures("train", "hard"), 1);

  write_file(folder_ / "train/ant/val/ant/1.png", "evaluation pictures within a class of the training");
  EXPECT_EQ(shared_pictures("train", "train/ant/val"), 1);
}

}  // namespace
}  // namespace trireme
