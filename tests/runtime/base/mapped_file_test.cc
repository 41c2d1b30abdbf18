#include "runtime/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheContentAndMoves) {
  const TemporaryFolder folder;
  testing::write_file(folder / "a", "content of a");
  testing::write_file(folder / "b", "content of b");
  MappedFile a(folder / "a", "file");
  EXPECT_EQ(text_of(a), "content of a");
  a = MappedFile(folder / "b", "file");
  EXPECT_EQ(text_of(a), "content of b");
  const MappedFile moved = std::move(a);
  EXPECT_EQ(text_of(moved), "content of b");
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  const TemporaryFolder folder;
  testing::write_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty", "file").bytes().empty());
}

TEST(MappedFile, ErrorsNameTheRoleTheFileAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = message_of([&] { MappedFile(folder / "missing", "token file"); });
  EXPECT_NE(missing.find("token file"), std::string::npos) << missing;
  EXPECT_NE(missing.find("missing"), std::string::npos) << missing;
  EXPECT_NE(missing.find("No such file"), std::string::npos) << missing;
  const std::string directory = message_of([&] { MappedFile(folder.path(), "file"); });
  EXPECT_NE(directory.find("not a regular file"), std::string::npos) << directory;
}

TEST(MappedFile, APipeIsRefusedAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(MappedFile(folder / "pipe", "file"), Error);
}

}  // namespace
}  // namespace trireme
