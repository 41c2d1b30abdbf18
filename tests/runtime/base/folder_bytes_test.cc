#include "runtime/base/folder_bytes.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(FolderBytes, AreThoseOfItsOwnFiles) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "of/a", "12345");
  testing::write_file(folder / "of/deep/er/b", "123");
  testing::write_file(folder / "elsewhere", "1234567890");
  std::filesystem::create_symlink("../elsewhere", folder / "of/link");
  std::filesystem::create_directory_symlink("..", folder / "of/around");
  EXPECT_EQ(bytes_below(folder / "of"), 8u);
  EXPECT_EQ(bytes_below(folder / "missing"), 0u);
}

}  // namespace
}  // namespace trireme
