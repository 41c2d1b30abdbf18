#include "runtime/base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

std::string error_of(const std::filesystem::path& path, std::size_t max_bytes = 1 << 20) {
  return message_of([&] { read_text_file({.path = path, .what = "job file", .max_bytes = max_bytes}); });
}

TEST(TextFile, IsReadWhole) {
  const TemporaryFolder folder;
  for (const std::size_t bytes : {0, 1, 65'535, 65'536, 65'537, 300'000}) {
    const std::string text(bytes, 'x');
    write_file(folder / "a", text);
    EXPECT_EQ(read_text_file({.path = folder / "a", .max_bytes = bytes}), text) << bytes;
  }
}

// Files of /proc have contents but report size 0.
TEST(TextFile, TheSizeIsAGuess) {
  EXPECT_NE(read_text_file({.path = "/proc/self/status", .max_bytes = 1 << 20}).find("Pid:"),
            std::string::npos);
  EXPECT_NE(error_of("/proc/self/status", 10).find("more than the maximum of 10"), std::string::npos);
}

TEST(TextFile, OneThatIsTooLargeIsNotRead) {
  const TemporaryFolder folder;
  write_file(folder / "a", "");
  std::filesystem::resize_file(folder / "a", std::uintmax_t{1} << 40);  // a sparse file
  const std::string message = error_of(folder / "a");
  EXPECT_NE(message.find("the job file " + (folder / "a").string()), std::string::npos) << message;
  EXPECT_NE(message.find("1099511627776 bytes, more than the maximum of 1048576"), std::string::npos)
      << message;
}

TEST(TextFile, OnlyRegularFilesAreRead) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of("/dev/zero"), "cannot read the job file /dev/zero: it is a device, not a regular file");
  EXPECT_NE(error_of("/dev/full").find("it is a device"), std::string::npos);
  EXPECT_NE(error_of(folder / "pipe").find("it is a pipe"), std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("it is a folder"), std::string::npos);
  EXPECT_NE(error_of(folder / "absent").find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace trireme
