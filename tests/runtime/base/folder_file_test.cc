#include "runtime/base/folder_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

class FolderFileTest : public ::testing::Test {
 protected:
  FolderFileTest() {
    write_file(folder_ / "set/a.txt", "a");
    write_file(folder_ / "set/sub/b.txt", "b");
    write_file(folder_ / "secret", "s");
  }
  std::string refusal(const std::string& name, const char* folder = "set") const {
    return message_of(
        [&] { file_of_folder({.folder = folder_ / folder, .name = name, .what = "tokenizer"}); });
  }
  fs::path taken(const std::string& name, const char* folder = "set") const {
    return file_of_folder({.folder = folder_ / folder, .name = name});
  }
  TemporaryFolder folder_;
};

TEST_F(FolderFileTest, TakesFilesBelowTheFolder) {
  EXPECT_EQ(taken("a.txt"), folder_ / "set/a.txt");
  EXPECT_EQ(taken("sub/b.txt"), folder_ / "set/sub/b.txt");
  EXPECT_EQ(taken("./a.txt"), folder_ / "set/./a.txt");
}

TEST_F(FolderFileTest, RefusesNamesThatLeaveIt) {
  for (const std::string& name :
       {std::string("../secret"), std::string("sub/../../secret"), (folder_ / "secret").string(),
        (folder_ / "set/a.txt").string(), std::string("sub/../a.txt"), std::string(), std::string(".."),
        std::string("sub/"), std::string("a.txt\0b", 7)}) {
    EXPECT_THAT(refusal(name), AllOf(HasSubstr("no name of a file in that folder"),
                                     HasSubstr("the tokenizer of"), HasSubstr((folder_ / "set").string())))
        << name;
  }
}

TEST_F(FolderFileTest, ALongNameIsCutInTheMessage) {
  EXPECT_LT(refusal(std::string(100'000, 'x')).size(), 1000u);
}

TEST_F(FolderFileTest, FollowsLinksInsideAndRefusesThoseThatLeadOut) {
  fs::create_symlink("a.txt", folder_ / "set/inside");
  fs::create_symlink("../a.txt", folder_ / "set/sub/inside");
  EXPECT_EQ(taken("inside"), folder_ / "set/inside");
  EXPECT_EQ(taken("sub/inside"), folder_ / "set/sub/inside");
  fs::create_symlink("../secret", folder_ / "set/outside");
  fs::create_symlink("outside", folder_ / "set/twice");
  fs::create_directory_symlink("..", folder_ / "set/up");
  for (const char* name : {"outside", "twice", "up/secret"}) {
    EXPECT_THAT(refusal(name),
                AllOf(HasSubstr("outside of its folder"), HasSubstr(name), HasSubstr("secret")));
  }
  // A folder whose name has the other's name as a prefix.
  write_file(folder_ / "set2/c", "c");
  fs::create_symlink("../set2/c", folder_ / "set/c");
  EXPECT_THAT(refusal("c"), HasSubstr("outside of its folder"));
}

TEST_F(FolderFileTest, FollowsTheUsersLinkToTheFolder) {
  fs::create_directory_symlink("set", folder_ / "link");
  EXPECT_EQ(taken("a.txt", "link"), folder_ / "link/a.txt");
  fs::create_symlink(folder_ / "secret", folder_ / "set/outside");
  EXPECT_THAT(refusal("outside", "link"), HasSubstr("outside of its folder"));
}

TEST_F(FolderFileTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(refusal("missing"), AllOf(HasSubstr("missing"), HasSubstr("does not exist")));
  EXPECT_THAT(refusal("sub"), HasSubstr("not a regular file"));
  fs::create_symlink("nowhere", folder_ / "set/broken");
  EXPECT_THAT(refusal("broken"), HasSubstr("does not exist"));
}

TEST_F(FolderFileTest, SnapshotsOfTheCacheLinkToItsBlobs) {
  write_file(folder_ / "models--a--b/blobs/0123", "t");
  fs::create_directories(folder_ / "models--a--b/snapshots/main");
  const fs::path link = folder_ / "models--a--b/snapshots/main/tokenizer.json";
  fs::create_symlink("../../blobs/0123", link);
  EXPECT_EQ(taken("tokenizer.json", "models--a--b/snapshots/main"), link);
  fs::remove(link);
  fs::create_symlink("../../../secret", link);
  EXPECT_THAT(refusal("tokenizer.json", "models--a--b/snapshots/main"), HasSubstr("outside of its folder"));
}

TEST_F(FolderFileTest, BoundsOfAWalk) {
  const FolderBounds bounds(folder_ / "set");
  fs::create_symlink("../secret", folder_ / "set/outside");
  EXPECT_TRUE(bounds.lead_out(folder_ / "set/outside"));
  EXPECT_FALSE(bounds.lead_out(folder_ / "set/a.txt"));
  EXPECT_FALSE(bounds.lead_out(folder_ / "set/missing"));
}

}  // namespace
}  // namespace trireme
