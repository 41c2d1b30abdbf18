// Each test creates a layout that another user could create, and expects the name of the unsafe component.
#include "runtime/base/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

constexpr uid_t kNobody = 65534;

unsigned mode_of(const fs::path& path) {
  return static_cast<unsigned>(fs::status(path).permissions()) & 07777U;
}

TEST(PrivateFolder, IsMadeWithItsParentsForThisUserAlone) {
  const TemporaryFolder folder;
  make_private_folder(folder / "a/b/c");
  for (const char* name : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode_of(folder / name), 0700U) << name;
  check_private_folder(folder / "a/b/c");
}

TEST(PrivateFolder, AnExistingOneIsClosedToOthersAndItsParentsStayAsTheyAre) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a/b");
  ::chmod((folder / "a").c_str(), 0755);
  ::chmod((folder / "a/b").c_str(), 0755);
  EXPECT_THAT(message_of([&] { check_private_folder(folder / "a/b"); }), HasSubstr("a/b (mode 755)"));
  make_private_folder(folder / "a/b");
  EXPECT_EQ(mode_of(folder / "a"), 0755U);
  EXPECT_EQ(mode_of(folder / "a/b"), 0700U);
}

TEST(PrivateFolder, AParentThatOthersCanWriteIsRefusedUnlessItIsSticky) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "open/mine");
  ::chmod((folder / "open").c_str(), 0777);
  EXPECT_THAT(message_of([&] { make_private_folder(folder / "open/mine"); }),
              HasSubstr((folder / "open").string() + " (mode 777)"));
  ::chmod((folder / "open").c_str(), 01777);
  EXPECT_EQ(message_of([&] { make_private_folder(folder / "open/mine"); }), "");
}

TEST(PrivateFolder, LinksAreFollowedThroughFoldersThatAreCheckedToo) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "open/target");
  fs::create_symlink("open/target", folder / "link");
  EXPECT_EQ(message_of([&] { make_private_folder(folder / "link/mine"); }), "");
  ::chmod((folder / "open").c_str(), 0777);
  EXPECT_THAT(message_of([&] { check_private_folder(folder / "link/mine"); }),
              HasSubstr((folder / "open").string() + " (mode 777)"));
  fs::create_symlink("loop", folder / "loop");
  EXPECT_NE(message_of([&] { make_private_folder(folder / "loop/mine"); }), "");
}

TEST(PrivateFolder, ItselfIsNeitherALinkNorAFile) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "target");
  fs::create_symlink("target", folder / "link");
  EXPECT_THAT(message_of([&] { make_private_folder(folder / "link"); }), HasSubstr("link is not a folder"));
  testing::write_file(folder / "file", "text");
  EXPECT_NE(message_of([&] { make_private_folder(folder / "file"); }), "");
}

TEST(PrivateFolder, ComponentsOfOtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  const TemporaryFolder folder;
  fs::create_directories(folder / "theirs/mine");
  ASSERT_EQ(::chown((folder / "theirs").c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(message_of([&] { make_private_folder(folder / "theirs/mine"); }),
              HasSubstr("theirs belongs to another user (number 65534)"));
  EXPECT_THAT(message_of([&] { make_private_folder(folder / "theirs"); }),
              HasSubstr("theirs belongs to another user"));
  fs::create_directory(folder / "target");
  fs::create_symlink("target", folder / "link");
  ASSERT_EQ(::lchown((folder / "link").c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(message_of([&] { make_private_folder(folder / "link/mine"); }),
              HasSubstr("link belongs to another user"));
}

/// The error of `action` as user 1234, in a user namespace without root; "skip" where namespaces are not
/// allowed.
std::string message_without_root(const std::function<void()>& action) {
  int pipe[2];
  if (::pipe(pipe) != 0) return "skip";
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kUser = 1234;
    std::string message = "skip";
    if (::setresuid(kUser, kUser, kUser) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0 &&
        ::unshare(CLONE_NEWUSER) == 0) {
      std::ofstream map("/proc/self/uid_map");
      map << kUser << " " << kUser << " 1\n" << std::flush;
      if (map.good()) message = message_of(action);
    }
    const auto written = ::write(pipe[1], message.data(), message.size());
    _exit(written == static_cast<ssize_t>(message.size()) ? 0 : 1);
  }
  ::close(pipe[1]);
  char text[4096];
  const ssize_t size = ::read(pipe[0], text, sizeof text);
  ::close(pipe[0]);
  ::waitpid(child, nullptr, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// As in a container that was started without root: "/" belongs to nobody there.
TEST(PrivateFolder, OwnersWhomANamespaceDoesNotKnowAreRootOutsideOfSharedFolders) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  const TemporaryFolder folder;
  ASSERT_EQ(::chown(folder.path().c_str(), 1234, 1234), 0);
  ::chmod(folder.path().c_str(), 0755);
  for (const char* name : {"root", "root/mine", "shared", "shared/theirs", "shared/theirs/mine"}) {
    fs::create_directories(folder / name);
    const uid_t owner = fs::path(name).filename() == "mine" ? 1234 : 0;
    ASSERT_EQ(::chown((folder / name).c_str(), owner, owner), 0);
  }
  ::chmod((folder / "shared").c_str(), 01777);
  const std::string own = message_without_root([&] { make_private_folder(folder / "root/mine/a"); });
  if (own == "skip") GTEST_SKIP() << "user namespaces are not allowed here";
  EXPECT_EQ(own, "");
  EXPECT_EQ(message_without_root([&] { check_folder_to_write(folder / "root/mine"); }), "");
  EXPECT_THAT(message_without_root([&] { make_private_folder(folder / "shared/theirs/mine"); }),
              HasSubstr("shared/theirs belongs to another user (number 65534)"));
}

TEST(PrivateFolder, NothingIsMadeInFoldersThatAreRefused) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "open");
  fs::create_directories(folder / "target");
  ::chmod((folder / "open").c_str(), 0777);
  EXPECT_NE(message_of([&] { make_private_folder(folder / "open/a/b"); }), "");
  EXPECT_TRUE(fs::is_empty(folder / "open"));
  testing::write_file(folder / "file", "text");
  EXPECT_THAT(message_of([&] { make_private_folder(folder / "file/mine"); }),
              HasSubstr("file is not a folder"));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  fs::create_symlink("target", folder / "link");
  ASSERT_EQ(::lchown((folder / "link").c_str(), kNobody, kNobody), 0);
  EXPECT_NE(message_of([&] { make_private_folder(folder / "link/a/b"); }), "");
  EXPECT_TRUE(fs::is_empty(folder / "target"));
}

TEST(FolderToWrite, MayBeMissingAndMayBeThisUsers) {
  const TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0777);
  check_folder_to_write(folder / "missing/out");
  fs::create_directories(folder / "mine/checkpoints");
  fs::create_symlink("mine", folder / "link");
  ::chmod((folder / "mine").c_str(), 0777);
  check_folder_to_write(folder / "mine");
  check_folder_to_write(folder / "link/");
}

TEST(FolderToWrite, LaidOutByAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  const TemporaryFolder folder;
  fs::create_directories(folder / "open/theirs");
  fs::create_directories(folder / "open/mine/private");
  fs::create_symlink("mine", folder / "open/link");
  fs::create_symlink("private", folder / "open/mine/checkpoints");
  for (const char* name : {"open/theirs", "open/link", "open/mine/checkpoints"})
    ASSERT_EQ(::lchown((folder / name).c_str(), kNobody, kNobody), 0) << name;
  const auto refusal = [&](const char* name) {
    return message_of([&] { check_folder_to_write(folder / name); });
  };
  EXPECT_EQ(refusal("open/theirs"), "") << "only this user could put it there";
  EXPECT_THAT(refusal("open/link"), HasSubstr("open/link belongs to another user"))
      << "a link, whoever can write";
  EXPECT_THAT(refusal("open/mine"), HasSubstr("mine/checkpoints belongs to another user"));
  fs::remove(folder / "open/mine/checkpoints");
  ::chmod((folder / "open").c_str(), 01777);
  EXPECT_THAT(refusal("open/theirs"), HasSubstr("open/theirs belongs to another user (number 65534)"));
  EXPECT_THAT(refusal("open/theirs/"), HasSubstr("open/theirs belongs to another user"));
  EXPECT_EQ(refusal("open/theirs/mine"), "") << "a folder of a group in a shared place";
  EXPECT_THAT(refusal("open/link"), HasSubstr("open/link belongs to another user"));
  EXPECT_THAT(refusal("open/link/below"), HasSubstr("open/link belongs to another user"));
  EXPECT_EQ(refusal("open/mine"), "");
  fs::create_directory(folder / "open/mine/checkpoints");
  ASSERT_EQ(::chown((folder / "open/mine/checkpoints").c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(refusal("open/mine"), "") << "others cannot write it";
  ::chmod((folder / "open/mine").c_str(), 0777);
  EXPECT_THAT(refusal("open/mine"), HasSubstr("mine/checkpoints belongs to another user"));
}

TEST(FolderToWrite, CanBeExchangedByAllWithoutTheStickyBit) {
  const TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0777);
  EXPECT_TRUE(all_can_exchange(folder / "out"));
  EXPECT_TRUE(all_can_exchange(folder / "out/"));
  ::chmod(folder.path().c_str(), 01777);
  EXPECT_FALSE(all_can_exchange(folder / "out"));
  EXPECT_TRUE(all_can_exchange(folder.path())) << "links into it";
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_FALSE(all_can_exchange(folder / "out"));
}

}  // namespace
}  // namespace trireme
