#include "runtime/checkpoint/writer_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace trireme {
namespace {

TEST(WriterMark, ThisProcessIsAliveAndAnEarlierOneWithItsNumberIsNot) {
  const std::string mark = writer_mark();
  EXPECT_EQ(mark, writer_mark());
  EXPECT_EQ(writer_state(mark), WriterState::kAlive) << mark;
  const auto dot = mark.find('.'), at = mark.find('@');
  EXPECT_EQ(writer_state(mark.substr(0, dot) + ".1" + mark.substr(at)), WriterState::kDead);
}

TEST(WriterMark, AChildIsDeadWhenItHasEnded) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string mark = writer_mark();
    (void)!::write(pipe_ends[1], mark.data(), mark.size());
    ::pause();
    ::_exit(0);
  }
  std::string mark(300, '\0');
  const auto size = ::read(pipe_ends[0], mark.data(), mark.size());
  ASSERT_GT(size, 0);
  mark.resize(static_cast<std::size_t>(size));
  EXPECT_EQ(writer_state(mark), WriterState::kAlive) << mark;
  ::kill(child, SIGKILL);
  ::siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(writer_state(mark), WriterState::kDead) << "a zombie writes no more";
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(writer_state(mark), WriterState::kDead);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST(WriterMark, NothingIsKnownOfOtherHosts) {
  EXPECT_EQ(writer_state("1.1@another-host"), WriterState::kUnknown);
  for (const char* mark : {"", "@", "7@h", ".7@h", "x.7@h", "no mark"})
    EXPECT_EQ(writer_state(mark), WriterState::kUnknown) << mark;
}

}  // namespace
}  // namespace trireme
