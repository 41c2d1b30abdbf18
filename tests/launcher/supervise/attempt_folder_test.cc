#include "launcher/supervise/attempt_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/checkpoint/writer_mark.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(AttemptFolder, IsPrivateAndRemovedWithAllInIt) {
  const std::string tag = writer_mark() + "#7";
  const AttemptFolder folder(tag);
  const std::vector<std::string> words = folder.make({});
  ASSERT_THAT(words, SizeIs(fs::is_directory("/dev/shm") ? 6 : 3));
  for (std::size_t i = 0; i < words.size(); i += 3) {
    const fs::path path = words[i + 2];
    EXPECT_EQ(words[i], "--mca");
    EXPECT_THAT(path.string(), HasSubstr("trireme-" + std::to_string(::geteuid()) + "/mpi-"));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    testing::write_file(path / "ompi.host.0/pid.1/contact.txt", "x");
    testing::write_file(path / "vader_segment.host.0.1", "x");
  }
  EXPECT_FALSE(AttemptFolder(writer_mark() + "#8").make({}).empty());
  AttemptFolder(writer_mark() + "#8").remove();
  EXPECT_TRUE(fs::exists(words[2])) << "another attempt's";
  AttemptFolder(tag).remove();  // by the supervisor that takes over
  for (std::size_t i = 0; i < words.size(); i += 3) EXPECT_FALSE(fs::exists(words[i + 2]));
  folder.remove();
}

TEST(AttemptFolder, OptionsOfTheUserHold) {
  const AttemptFolder folder(writer_mark() + "#9");
  EXPECT_THAT(folder.make({"--mca", "orte_tmpdir_base", "/x", "--mca", "btl_vader_backing_directory", "/y"}),
              IsEmpty());
}

}  // namespace
}  // namespace trireme
