#include "runtime/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <span>
#include <string>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(AtomicFile, AppearsOnCommitOnly) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "result");
  file.writer().append(bytes_of("text"));
  file.writer().flush();
  EXPECT_FALSE(std::filesystem::exists(folder / "result"));
  file.commit();
  EXPECT_EQ(read_file(folder / "result"), "text");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFile, WithoutCommitTheEarlierFileStaysAndNothingElse) {
  const TemporaryFolder folder;
  write_file(folder / "result", "old");
  {
    AtomicFile file(folder / "result");
    file.writer().append(bytes_of("new"));
  }
  EXPECT_EQ(read_file(folder / "result"), "old");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFile, CommitReplacesTheEarlierFile) {
  const TemporaryFolder folder;
  write_file(folder / "result", "a longer old text");
  AtomicFile file(folder / "result");
  file.writer().append(bytes_of("new"));
  file.commit();
  EXPECT_EQ(read_file(folder / "result"), "new");
}

/// Limits the size of files that this process writes, during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(AtomicFile, AFailedWriteLeavesTheEarlierFileAndNothingElse) {
  const TemporaryFolder folder;
  write_file(folder / "result", "old");
  const FileSizeLimit limit(1000);
  {
    AtomicFile file(folder / "result");
    file.writer().append(bytes_of(std::string(5000, 'x')));
    try {
      file.commit();
      FAIL() << "beyond the limit";
    } catch (const Error& error) {  // names the final file, not the temporary one
      const std::string text = error.what();
      EXPECT_NE(text.find((folder / "result").string() + " after"), std::string::npos) << text;
      EXPECT_EQ(text.find(".tmp-"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(read_file(folder / "result"), "old");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFile, RefusesToReplaceWhatIsNotAFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(AtomicFile(folder.path()), Error);
  EXPECT_THROW(AtomicFile("/dev/full"), Error);
}

TEST(AtomicFile, FollowsNoLinkOfAnotherUserToItsFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  constexpr uid_t kNobody = 65534;
  const TemporaryFolder folder;
  write_file(folder / "precious/result", "old");
  std::filesystem::create_directory_symlink("precious", folder / "own");
  std::filesystem::create_directory_symlink("precious", folder / "theirs");
  ASSERT_EQ(::lchown((folder / "theirs").c_str(), kNobody, kNobody), 0);
  write_text_file(folder / "own/result", "new");
  EXPECT_EQ(read_file(folder / "precious/result"), "new");
  EXPECT_NE(testing::message_of([&] {
              write_text_file(folder / "theirs/result", "x");
            }).find("theirs belongs to another user"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "precious/result"), "new");
}

TEST(AtomicFile, ALeftoverOfAKilledProcessWithOurNumberIsNoObstacle) {
  const TemporaryFolder folder;
  std::filesystem::path leftover;
  {
    AtomicFile file(folder / "result");
    leftover = file.writer().path();
  }
  write_file(leftover, "half of somethi");
  AtomicFile file(folder / "result");
  file.writer().append(bytes_of("whole"));
  file.commit();
  EXPECT_EQ(read_file(folder / "result"), "whole");
  EXPECT_EQ(folder.num_entries(), 1);
}

}  // namespace
}  // namespace trireme
