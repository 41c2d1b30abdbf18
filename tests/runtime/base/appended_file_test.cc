#include "runtime/base/appended_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

TEST(AppendedFile, KeepsWhatIsThereUntilItIsShortened) {
  const TemporaryFolder folder;
  write_file(folder / "lines", "a\nb\nc");
  AppendedFile file(folder / "lines");
  EXPECT_EQ(file.read(), "a\nb\nc");
  file.shorten(4);
  file.append("d\n");
  file.sync();
  EXPECT_EQ(read_file(folder / "lines"), "a\nb\nd\n");
  AppendedFile(folder / "new").append("e\n");
  EXPECT_EQ(read_file(folder / "new"), "e\n");
}

TEST(AppendedFile, LinksAreRefusedAndTheirTargetsStay) {
  const TemporaryFolder folder;
  write_file(folder / "precious", "text");
  fs::create_directory(folder / "out");
  fs::create_symlink("../precious", folder / "out/lines");
  fs::create_symlink("../nothing", folder / "out/broken");
  EXPECT_THAT(
      message_of([&] { AppendedFile(folder / "out/lines"); }),
      AllOf(HasSubstr("out/lines"), HasSubstr("a link to ../precious"), HasSubstr("remove the link")));
  EXPECT_THAT(message_of([&] { AppendedFile(folder / "out/broken"); }), HasSubstr("a link to ../nothing"));
  EXPECT_EQ(read_file(folder / "precious"), "text");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
}

TEST(AppendedFile, SpecialFilesAreRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { AppendedFile(folder / "pipe"); }), HasSubstr("pipe, not a regular file"));
  EXPECT_THAT(message_of([&] { AppendedFile(folder.path()); }), HasSubstr("cannot write"));
  EXPECT_THAT(message_of([&] { AppendedFile(folder / "missing/lines"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace trireme
