#include "runtime/data/shared_files.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
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
  /// For folders of class folders; images are not opened.
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
    write_file(folder_ / name, std::string("no picture is decoded: ") + name);
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

TEST_F(SharedFilesTest, CopiesOfPicturesAreFoundByTheirBytes) {
  const auto picture = [](int number) { return fmt::format("a picture of one size {:04}", number); };
  for (int i = 0; i < 40; ++i) {
    write_file(folder_ / fmt::format("train/ant/{}.png", i), picture(i));
    write_file(folder_ / fmt::format("val/ant/{}.png", i), picture(100 + i));
  }
  EXPECT_EQ(shared_pictures("train", "val"), 0);
  write_file(folder_ / "val/ant/empty.png", "");
  write_file(folder_ / "train/ant/empty.png", "");
  EXPECT_EQ(shared_pictures("train", "val"), 0);
  write_file(folder_ / "val/bee/copy.png", picture(7));
  write_file(folder_ / "train/bee/again.png", picture(7));  // counts once
  const auto train = open_images({.path = folder_ / "train"}), val = open_images({.path = folder_ / "val"});
  const auto found = find_shared_files(*train, *val);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_copy);
  EXPECT_EQ(found->count, 1);
  EXPECT_EQ(found->num_compared, 42);
  EXPECT_EQ(found->eval, folder_ / "val/bee/copy.png");
  EXPECT_EQ(found->train, folder_ / "train/ant/7.png");

  // Files that differ only before the part that is read.
  const std::string end(10'000, 'x');
  write_file(folder_ / "train/long/1.png", "a" + end);
  write_file(folder_ / "val/long/1.png", "b" + end);
  EXPECT_EQ(shared_pictures("train", "val"), 1);
  write_file(folder_ / "val/long/2.png", "a" + end);
  EXPECT_EQ(shared_pictures("train", "val"), 2);
}

TEST_F(SharedFilesTest, AsManyPicturesAreComparedAsMayBeOpened) {
  for (int i = 0; i < 100; ++i) {
    const std::string picture(static_cast<std::size_t>(10 + i), 'x');  // all sizes differ
    write_file(folder_ / fmt::format("train/ant/{}.png", i), picture);
    write_file(folder_ / fmt::format("val/ant/{}.png", i), picture);
  }
  const auto train = open_images({.path = folder_ / "train"}), val = open_images({.path = folder_ / "val"});
  for (const auto& [max_files, count] : {std::pair{200, 100}, {20, 10}, {2, 1}}) {
    const auto found = find_shared_files(*train, *val, max_files);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->count, count);
    EXPECT_EQ(found->num_compared, count);
  }
  EXPECT_FALSE(find_shared_files(*train, *val, 0));
}

}  // namespace
}  // namespace trireme
